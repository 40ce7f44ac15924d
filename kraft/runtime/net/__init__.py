"""Sockets: listeners and their requests, connections to other nodes."""
