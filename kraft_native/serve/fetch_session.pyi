from collections.abc import Generator
from typing import final

from kraft_native.partition.purgatory import Watched
from kraft_native.serve.fetch_entry import FetchEntry

@final
class FetchSession(Watched):
    session_id: int
    epoch: int

@final
class SessionCache:
    slots_max: int
    partitions_max: int
    eviction_ms: int
    upkeep_ms: int
    partition_count: int
    evictions_total: int
    def __init__(
        self, slots_max: int = 1000, *, partitions_max: int = 500_000, eviction_ms: int = 120_000,
        upkeep_ms: int = 1000
    ) -> None: ...
    def __len__(self) -> int: ...
    def update_steps(
        self, session: FetchSession, entries: list[FetchEntry], forgotten: list[tuple[bytes, int]], step: int
    ) -> Generator[None, None, bool]: ...
