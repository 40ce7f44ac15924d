from asyncio import Transport
from collections.abc import Callable
from typing import final

from kraft_native.net.frames import ReadWindow
from kraft_native.partition.partition import Partition
from kraft_native.partition.purgatory import Parked

@final
class FollowedPartition: ...

@final
class ReplicaFetcher:
    responses_total: int
    bytes_total: int

    def __init__(
        self,
        node_id: int,
        broker_epoch: int,
        *,
        client_id: str,
        on_error: Callable[[Partition, int, BaseException | None], object],
        on_lost: Callable[[ReplicaFetcher], object],
        on_cut: Callable[[Partition, int, str], object] | None = None,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        bytes_max: int = 10485760,
        partition_bytes_max: int = 1048576,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def waits(self) -> bool:
        """True while a response is outstanding."""

    @property
    def silent_ms(self) -> int:
        """Milliseconds since the last byte, while a response is outstanding; else 0."""

    def follow(self, partition: Partition) -> None: ...
    def unfollow(self, partition: Partition) -> bool: ...
    def partitions(self) -> list[Partition]: ...
    def send_now(self) -> None: ...
    def close(self) -> None: ...
    def connection_made(self, transport: Transport) -> None: ...
    def connection_lost(self, exception: Exception | None) -> None: ...
    def get_buffer(self, size_hint: int) -> ReadWindow: ...
    def buffer_updated(self, count: int) -> None: ...
    def eof_received(self) -> bool: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...

@final
class FlushWaiter(Parked): ...

@final
class ThrottleWait(Parked): ...
