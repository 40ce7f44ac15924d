from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, final

from numpy.typing import NDArray
from typing_extensions import Buffer

COLUMNS: Final[tuple[str, ...]]
DEFAULT_COLUMNS: Final[tuple[str, ...]]

class BinaryColumn(NamedTuple):
    offsets: Any
    data: Any
    valid: Any

class HeadersColumn(NamedTuple):
    starts: Any
    keys: BinaryColumn
    values: BinaryColumn

@final
class Columns:
    next_offset: int
    next_position: int
    def __init__(self, *args: object, **kwargs: object) -> None: ...
    def __len__(self) -> int: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def numpy(self, name: str) -> NDArray[Any] | BinaryColumn | HeadersColumn: ...

@final
class ColumnReader:
    columns: tuple[str, ...]
    def __new__(
        cls,
        columns: Sequence[str] = ...,
        *,
        control: bool = False,
        check_crc: bool = True,
        max_bytes: int | None = None,
        max_ratio: int | None = None,
    ) -> ColumnReader: ...
    def read(
        self,
        source: Buffer,
        *,
        position: int = 0,
        start_offset: int = 0,
        end_offset: int | None = None,
        max_records: int | None = None,
        aborted: Iterable[tuple[int, ...]] = (),
    ) -> Columns: ...

def read_columns(
    source: Buffer,
    *,
    columns: Sequence[str] = ...,
    start_offset: int = 0,
    end_offset: int | None = None,
    max_records: int | None = None,
    aborted: Iterable[tuple[int, ...]] = (),
    control: bool = False,
    check_crc: bool = True,
    max_bytes: int | None = None,
    max_ratio: int | None = None,
) -> Columns: ...
