"""Clients in other languages, unmodified, against clusters of ours; see `programs`."""
