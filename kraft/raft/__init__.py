"""Consensus core of the metadata quorum: KIP-595, KIP-642 and KIP-996 as one state machine without input or output.

`kraft.raft.raft.Raft` is the entry point; `docs/internals/raft.md` maps the KIPs' sentences to the code.
"""
