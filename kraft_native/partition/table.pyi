from collections.abc import Callable, Container, Iterator, Mapping
from typing import Protocol, TypeAlias, final

from kraft_native.partition.partition import Partition
from kraft_native.partition.purgatory import Purgatory

class _Led(Protocol):
    """The subset of a partition's registration that a refusal needs."""

    @property
    def leader(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...

_Absent: TypeAlias = tuple[int, str, Mapping[int, _Led] | None, Container[tuple[str, int]], int]

@final
class AbsentTopic: ...

@final
class Topic:
    name: bytes
    topic_id: bytes

@final
class PartitionTable:
    purgatory: Purgatory
    partition_count: int
    produced_bytes: int
    """This and the following: totals of the removed partitions."""
    produced_records: int
    fetched_bytes: int
    refused_produces: int
    refused_fetches: int
    reports_endpoints: bool
    """True when clients get the address of another leader: not when listeners with other addresses exist."""
    def __init__(self, purgatory: Purgatory) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Partition]: ...
    def expect(self, bring: Callable[[bytes | None, bool], None] | None) -> None: ...
    def settle(self) -> bool: ...
    def explain(self, absence: Callable[[bytes, bool], _Absent]) -> None:
        """Set how the refusal for a missing partition is found.

        `absence(key, by_id)` is called once per topic and round of look-ups, with the topic's name (UTF-8) or id. It
        returns:

        - the error code of partitions that the topic does not have,
        - the topic's name,
        - its partitions by index (None: it is unknown),
        - the (topic, index) pairs with a replica here whose log failed,
        - this node's id.
        """
    def hide(self, refusing: dict[int, int]) -> None:
        """Set the leaders that replies with a refusal do not name: a client that is sent to a dead leader loses time.

        `refusing`: node id -> time until which it is not named, on the clock of `purgatory.now_ms`. The caller keeps
        the dict and changes it.
        """
    def add(self, partition: Partition) -> None: ...
    def remove(self, topic_name: str, index: int) -> Partition: ...
    def get(self, topic_name: str, index: int) -> Partition | None: ...
    def get_by_id(self, topic_id: bytes, index: int) -> Partition | None: ...
    def set_endpoint(self, node_id: int, host: str, port: int, rack: str | None = None) -> None: ...
    def remove_endpoint(self, node_id: int) -> None: ...
