from typing import final

@final
class FetchSession:
    session_id: int
    epoch: int

@final
class SessionCache:
    slots_max: int
    partitions_max: int
    eviction_ms: int
    partition_count: int
    evictions_total: int
    def __init__(
        self, slots_max: int = 1000, *, partitions_max: int = 500_000, eviction_ms: int = 120_000
    ) -> None: ...
    def __len__(self) -> int: ...
