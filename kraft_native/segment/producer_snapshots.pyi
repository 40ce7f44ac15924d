from os import PathLike
from typing import NamedTuple

class ProducerState(NamedTuple):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    last_timestamp_ms: int
    txn_first_offset: int

def snapshot_path(directory: str | bytes | PathLike[str], offset: int) -> str: ...
def list_snapshots(directory: str | bytes | PathLike[str]) -> list[int]: ...
def remove_snapshots_before(directory: str | bytes | PathLike[str], offset: int) -> list[int]: ...
def remove_snapshots_after(directory: str | bytes | PathLike[str], offset: int) -> list[int]: ...
def read_snapshot(path: str | bytes | PathLike[str]) -> list[ProducerState]: ...
