"""The compiled core of kraft: files, batches, segments, the log."""
