from collections.abc import Iterable, Mapping
from typing import TypeAlias, final

from typing_extensions import Buffer

_Headers: TypeAlias = Iterable[tuple[str | Buffer, Buffer | None]] | Mapping[str, Buffer | None]

@final
class Record:
    def __init__(self, *args: object, **kwargs: object) -> None: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def timestamp_type(self) -> str: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...
    @property
    def leader_epoch(self) -> int: ...

@final
class RecordIterator:
    def __iter__(self) -> RecordIterator: ...
    def __next__(self) -> Record: ...

@final
class BatchBuilder:
    def __init__(
        self, codec: str = "none", level: int | None = None, *, transactional: bool = False, control: bool = False
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def codec_id(self) -> int: ...
    @property
    def size_in_bytes(self) -> int: ...
    def append(
        self,
        value: Buffer | None,
        key: Buffer | None = None,
        timestamp_ms: int | None = None,
        headers: _Headers = (),
        *,
        offset_delta: int | None = None,
    ) -> None: ...
    def build(
        self,
        base_offset: int = 0,
        *,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        log_append_time_ms: int | None = None,
    ) -> bytes: ...
    def clear(self) -> None: ...

def values_batch(values: Iterable[bytes], timestamp_ms: int, *, base_offset: int, leader_epoch: int) -> bytes: ...
def records(
    source: Buffer,
    *,
    check_crc: bool = True,
    control: bool = False,
    max_bytes: int | None = None,
    max_ratio: int | None = None,
) -> RecordIterator: ...
