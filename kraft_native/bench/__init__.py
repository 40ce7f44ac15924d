"""The load generator of `kraft bench`."""
