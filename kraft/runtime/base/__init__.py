"""Common base of all parts of a running node: the loop's time, descriptors, memory, log output."""
