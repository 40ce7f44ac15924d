"""Member of a classic group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TypeAlias

from kraft.broker.coordinator.answer import Answer
from kraft.protocol.messages.join_group_request import JoinGroupRequestProtocol
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.sync_group_response import SyncGroupResponse
from kraft.structs import mutable

# (name, metadata) by preference; each name occurs once.
Protocols: TypeAlias = tuple[tuple[str, bytes], ...]


def protocols_of(offered: Iterable[JoinGroupRequestProtocol]) -> Protocols:
    """Return the protocols of a JoinGroup in the member's order; of a repeated name, the first counts."""
    by_name: dict[str, bytes] = {}
    for protocol in offered:
        by_name.setdefault(protocol.name, protocol.metadata)
    return tuple(by_name.items())


@mutable
class Member:
    """One member. `awaiting_join` and `awaiting_sync` are its parked requests, which the group's next step answers."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False        # until its first rebalance completes, its parked JoinGroup does not keep it alive
    awaiting_join: Answer[JoinGroupResponse] | None = field(default=None, compare=False)
    awaiting_sync: Answer[SyncGroupResponse] | None = field(default=None, compare=False)

    def metadata(self, protocol_name: str) -> bytes:
        """Return the member's metadata for `protocol_name`; KeyError when it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise KeyError(f"member {self.member_id} does not support {protocol_name}")

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """True while a parked request shows that the member is alive."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)
