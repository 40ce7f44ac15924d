"""Files of a log: segments, indexes, epochs, producers, checkpoints."""
