"""A log as Python sees it: the owner's `Log` and the `LogReader` of other processes."""
