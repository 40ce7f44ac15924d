from typing import Any, Final

from typing_extensions import Buffer

REASONS: Final[tuple[str, ...]]
FIELD_ABSENT: Final[int]
FIELD_TEXT: Final[int]
FIELD_ESCAPED_TEXT: Final[int]
FIELD_OTHER: Final[int]

def scan_lines(data: Buffer, names: tuple[bytes, ...], lines: Any, fields: Any) -> tuple[int, int]: ...
def gather(data: Buffer, starts: Any, ends: Any, kinds: Any, offsets: Any) -> bytearray: ...
