"""ZkMigrationStateRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ZkMigrationStateRecord.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class ZkMigrationStateRecord(Message):
    __slots__ = ("zk_migration_state", "unknown_tags")
    API_KEY = 21
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        zk_migration_state: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.zk_migration_state = zk_migration_state
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            zk_migration_state=r.int8(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int8(self.zk_migration_state)
        w.tags(self.unknown_tags)
