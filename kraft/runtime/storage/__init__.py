"""Files of a node's data directories: formatting, logs, removals, failed directories."""
