from typing import Any, final

@final
class ColumnEncoder:
    @property
    def next_offset(self) -> int: ...
    def __init__(self, *args: object, **kwargs: object) -> None: ...
    def __iter__(self) -> ColumnEncoder: ...
    def __next__(self) -> bytes: ...
    def __len__(self) -> int: ...

def encode_columns(
    values: Any,
    *,
    keys: Any = None,
    timestamps: Any = None,
    headers: Any = None,
    codec: str | int = "none",
    level: int | None = None,
    batch_bytes_max: int = 1_048_576,
    batch_records_max: int = ...,
    base_offset: int | None = None,
    transactional: bool = False,
) -> ColumnEncoder: ...
