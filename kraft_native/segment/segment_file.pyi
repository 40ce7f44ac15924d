from typing import final

from typing_extensions import disjoint_base

@final
class Copies: ...

@disjoint_base
class SegmentFile:
    @property
    def directory(self) -> bytes: ...
    @property
    def path(self) -> bytes: ...
    @property
    def size(self) -> int: ...
