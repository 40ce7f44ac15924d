"""What tests of a quorum need: logs in memory, and the simulator."""
