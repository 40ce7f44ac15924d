"""ListTransactionsResponse, versions 0 to 2, flexible from 0.

Made by tools/protocol.py from schemas/messages/ListTransactionsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, structs_steps


class TransactionState(Struct):
    __slots__ = ("transactional_id", "producer_id", "transaction_state", "unknown_tags")

    def __init__(
        self, *,
        transactional_id: str = "",
        producer_id: int = 0,
        transaction_state: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            transactional_id=r.string(),
            producer_id=r.int64(),
            transaction_state=r.string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.transactional_id)
        w.int64(self.producer_id)
        w.string(self.transaction_state)
        w.tags(self.unknown_tags)


class ListTransactionsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states", "unknown_tags")
    API_KEY = 66
    VERSIONS = range(3)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: Iterable[str] = (),
        transaction_states: Iterable[TransactionState] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = list(unknown_state_filters)
        self.transaction_states = list(transaction_states)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            unknown_state_filters=r.array(r.string),
            transaction_states=r.structs(TransactionState.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            unknown_state_filters=(yield from array_steps(r, r.string)),
            transaction_states=(yield from structs_steps(r, TransactionState.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        w.array(w.string, self.unknown_state_filters)
        w.structs(self.transaction_states, version)
        w.tags(self.unknown_tags)
