"""Nothing for Python callers."""

from typing import final

@final
class Names: ...
