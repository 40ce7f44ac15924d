"""A quorum of real processes under load, killed, paused, wiped and changed: nothing that was committed is lost."""
