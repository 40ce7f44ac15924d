from typing_extensions import disjoint_base

@disjoint_base
class SegmentFile:
    @property
    def directory(self) -> bytes: ...
    @property
    def path(self) -> bytes: ...
    @property
    def size(self) -> int: ...
