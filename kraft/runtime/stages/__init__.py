"""Stages of a broker's start, each complete once constructed.

`kraft.runtime.server_node` opens them in this order and closes them in reverse: `storage`, `data_path`, `listeners`,
the control plane (`kraft.runtime.quorum.control_plane`), `broker_core`, `serving`, `commits`.
"""
