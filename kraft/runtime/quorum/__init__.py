"""This node's replica of the metadata log, and the ways to the active controller."""
