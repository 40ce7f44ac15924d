"""Random and mutated frames of every API and version against a node's process."""
