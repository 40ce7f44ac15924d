"""Nothing here is for Python."""

from typing import final

@final
class Names: ...
