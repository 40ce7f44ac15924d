"""Every setting of every resource with hostile values, on live nodes: `python -m tests.evil_config`."""
