"""What tests need: of a quorum logs in memory and the simulator, of a client a cluster (`pytest_plugin`)."""
