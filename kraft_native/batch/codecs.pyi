from typing import Final

from typing_extensions import Buffer

CODECS: Final[tuple[str, ...]]
LEVELS: Final[tuple[tuple[int, int, int] | None, ...]]

def compress(codec: str | int, data: Buffer, level: int | None = None) -> bytes: ...
def decompress(codec: str | int, data: Buffer, *, max_bytes: int = ..., max_ratio: int = ...) -> bytes: ...
