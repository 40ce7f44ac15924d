"""A log's files as a tool sees them that does not own the log: names, marks, index entries. Nothing here writes."""
