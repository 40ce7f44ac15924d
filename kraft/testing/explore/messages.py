"""Messages under way between explored nodes."""

from dataclasses import fields
from enum import IntEnum
from typing import Any, Final, NamedTuple

from kraft.raft.messages import FetchRequest, QuorumResponse, Request, Response
from kraft.raft.ready import HardState
from kraft.raft.types import NOBODY
from kraft.testing.explore.frozen import NodeId

HIDDEN_FIELDS: Final = ("cluster_id", "leader_endpoints", "max_bytes", "max_wait_ms", "log_start_offset")


class Wait(IntEnum):
    """State of the sender of a request: does it still wait for this exchange? It replaces correlation ids, which only
    express that. `LATE`: the sender gave the request up. `DROPPED`: the process of the sender has ended, and no answer
    can reach it."""

    LATE = 0
    AWAITED = 1
    DROPPED = 2


class Message(NamedTuple):
    """A request of `requester` to `target` under way, or its response under way."""

    requester: NodeId
    target: NodeId
    wait: Wait
    payload: Request | Response

    @property
    def is_answer(self) -> bool:
        return isinstance(self.payload, Response)

    @property
    def receiver(self) -> NodeId:
        return self.requester if self.is_answer else self.target

    def __str__(self) -> str:
        way = f"{self.target}->{self.requester}" if self.is_answer else f"{self.requester}->{self.target}"
        late = "" if self.wait is Wait.AWAITED else f" ({self.wait.name.lower()})"
        return f"{way} {describe(self.payload)}{late}"


def describe(payload: Any) -> str:
    """Return a message as one line: its name, and each field that differs from its default."""
    shown = [f"{field.name}={getattr(payload, field.name)}" for field in fields(payload)
             if field.name not in HIDDEN_FIELDS and getattr(payload, field.name) != field.default]
    return " ".join([type(payload).__name__, *shown])


def is_dead(message: Message, receiver: HardState) -> bool:
    """Return whether a message will change nothing, whenever it arrives. `receiver` is what its receiver knows now.
    Epochs never fall, so a message without news now never has any."""
    payload = message.payload
    if isinstance(payload, QuorumResponse):
        if message.wait is Wait.AWAITED or payload.epoch > receiver.epoch:
            return False
        return payload.epoch < receiver.epoch or payload.leader_id in (NOBODY, message.requester, receiver.leader_id)
    if isinstance(payload, Response):
        return message.wait is not Wait.AWAITED
    if message.wait is not Wait.DROPPED:
        return False
    return getattr(payload, "epoch", receiver.epoch) < receiver.epoch or (
        isinstance(payload, FetchRequest) and payload.epoch == receiver.epoch
        and receiver.leader_id not in (NOBODY, message.target))
