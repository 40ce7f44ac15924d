"""DescribeClusterRequest, versions 0 to 2, flexible from 0.

Made by tools/protocol.py from schemas/messages/DescribeClusterRequest.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter


class DescribeClusterRequest(Message):
    __slots__ = ("include_cluster_authorized_operations", "endpoint_type", "include_fenced_brokers", "unknown_tags")
    API_KEY = 60
    VERSIONS = range(3)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            include_cluster_authorized_operations=r.boolean(),
            endpoint_type=r.int8() if version >= 1 else 1,
            include_fenced_brokers=r.boolean() if version >= 2 else False,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.boolean(self.include_cluster_authorized_operations)
        if version >= 1:
            w.int8(self.endpoint_type)
        elif self.endpoint_type != 1:
            raise absent(self, "endpoint_type", version)
        if version >= 2:
            w.boolean(self.include_fenced_brokers)
        elif self.include_fenced_brokers:
            raise absent(self, "include_fenced_brokers", version)
        w.tags(self.unknown_tags)
