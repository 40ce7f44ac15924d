from collections.abc import Iterable
from typing import NamedTuple, final

class LoadSpec(NamedTuple):
    fileno: int
    frame: bytes
    in_flight: int = 1
    interval_ns: int = 0
    no_reply: bool = False
    error_position: int = -1
    fetch_offset_position: int = -1
    records_position: int = -1
    first_offset: int = 0
    wrap: bool = False
    batch_position: int = -1
    batch_bytes: int = 0
    stamp_position: int = -1
    reads_stamps: bool = False

class LoadResult(NamedTuple):
    requests: int
    errors: int
    first_error: int
    records_bytes: int
    records: int
    bytes_sent: int
    bytes_received: int
    elapsed_ns: int
    latency: list[tuple[int, int]]
    end_to_end: list[tuple[int, int]]
    slot_requests: list[int]

@final
class Load:
    def __init__(self, specs: Iterable[LoadSpec]) -> None: ...
    def run(self, seconds: float, *, requests_max: int = 0, slots: int = 0) -> LoadResult: ...
    def stop(self) -> None: ...
