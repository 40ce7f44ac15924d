"""Connections: frames, replies, limits."""
