from collections.abc import Mapping
from typing import Any, NamedTuple, Unpack, final

from kraft_native.segment.log_fields import LogFields, LogSettings

class Field(NamedTuple):
    name: str
    kafka_name: str | None
    unit: str
    default: int | float | str
    allowed: tuple[Any, ...]
    doc: str
    lowest: int | float | None = ...

FIELDS: tuple[Field, ...]

@final
class LogConfig(LogFields):
    def __init__(self, **settings: Unpack[LogSettings]) -> None: ...
    @staticmethod
    def from_kafka(settings: Mapping[str, str]) -> LogConfig: ...
    def replace(self, **changes: Unpack[LogSettings]) -> LogConfig: ...
    def as_dict(self) -> dict[str, Any]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
