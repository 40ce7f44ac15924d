"""The engine beside other embedded stores and queues, in one run: `python -m bench.embedded --help`."""
