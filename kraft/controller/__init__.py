"""Decisions about the cluster: requests in, metadata records and answers out (KIP-631).

A decision is a pure function of the image and the request. Only the replay of its records changes anything, and only
when they are committed does anybody hear of it. One file per kind of decision; `controller` is the machine around them.
"""
