"""Rules of the specifications taken out of the code, one at a time: the tests that docs/kips.md names must fail."""
