"""The version: the only place that states it. The build reads it from here, and compiles it into the core."""

__version__ = "0.1.0"
