from typing import NamedTuple, final

class CleanerStats(NamedTuple):
    rounds: int
    first_dirty_offset: int
    segments_before: int
    segments_after: int
    segments_rewritten: int
    bytes_before: int
    bytes_after: int
    map_bytes_read: int
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int
    records_without_key: int
    map_keys: int
    seconds: float

@final
class Cleaner:
    def owner_step(self) -> object: ...
