"""Decisions about the cluster: requests in, metadata records and answers out (KIP-631).

A decision is a pure function of the image and the request. Only the replay of its records changes state, and the
decision becomes visible only when they are committed. Each kind of decision has its own file; `controller` is the
machine around them.
"""
