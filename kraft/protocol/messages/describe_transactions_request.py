"""DescribeTransactionsRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/DescribeTransactionsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps


class DescribeTransactionsRequest(Message):
    __slots__ = ("transactional_ids", "unknown_tags")
    API_KEY = 65
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        transactional_ids: Iterable[str] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.transactional_ids = list(transactional_ids)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            transactional_ids=r.array(r.string),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            transactional_ids=(yield from array_steps(r, r.string)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.array(w.string, self.transactional_ids)
        w.tags(self.unknown_tags)
