"""ListTransactionsRequest, versions 0 to 2, flexible from 0.

Made by tools/protocol.py from schemas/messages/ListTransactionsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps


class ListTransactionsRequest(Message):
    __slots__ = ("state_filters", "producer_id_filters", "duration_filter", "transactional_id_pattern", "unknown_tags")
    API_KEY = 66
    VERSIONS = range(3)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        state_filters: Iterable[str] = (),
        producer_id_filters: Iterable[int] = (),
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.state_filters = list(state_filters)
        self.producer_id_filters = list(producer_id_filters)
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            state_filters=r.array(r.string),
            producer_id_filters=r.array(r.int64),
            duration_filter=r.int64() if version >= 1 else -1,
            transactional_id_pattern=r.nullable_string() if version >= 2 else None,
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            state_filters=(yield from array_steps(r, r.string)),
            producer_id_filters=(yield from array_steps(r, r.int64)),
            duration_filter=r.int64() if version >= 1 else -1,
            transactional_id_pattern=r.nullable_string() if version >= 2 else None,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.array(w.string, self.state_filters)
        w.array(w.int64, self.producer_id_filters)
        if version >= 1:
            w.int64(self.duration_filter)
        elif self.duration_filter != -1:
            raise absent(self, "duration_filter", version)
        if version >= 2:
            w.nullable_string(self.transactional_id_pattern)
        elif self.transactional_id_pattern is not None:
            raise absent(self, "transactional_id_pattern", version)
        w.tags(self.unknown_tags)
