"""Parts of every request: header, fields, reply, durations, quotas, slices of the loop's time."""
