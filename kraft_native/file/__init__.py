"""Every call of the file system, faults in those calls, and memory with a visible owner."""
