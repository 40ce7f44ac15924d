from typing import Final, final

from typing_extensions import Buffer

ORIGINS: Final[tuple[str, ...]]
TIMESTAMP_TYPES: Final[tuple[str, ...]]

@final
class ValidatedBatch:
    def __init__(self, *args: object, **kwargs: object) -> None: ...
    @property
    def data(self) -> bytes: ...
    @property
    def max_timestamp_delta(self) -> int: ...
    @property
    def rewritten(self) -> bool: ...

def validate(
    data: Buffer,
    *,
    now_ms: int,
    timestamp_type: str = "CreateTime",
    timestamp_before_max_ms: int = ...,
    timestamp_after_max_ms: int = 3_600_000,
    batch_bytes_max: int = 1_048_588,
    compression_type: str = "producer",
    level: int | None = None,
    key_required: bool = False,
    origin: str = "client",
    max_bytes: int | None = None,
    max_ratio: int | None = None,
) -> ValidatedBatch: ...
