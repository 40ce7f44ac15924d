from typing import final

@final
class ArrowColumn:
    @property
    def name(self) -> str: ...

@final
class ScratchView:
    """Finished scratch memory as read-only bytes."""

@final
class ImportedArray:
    """An imported Arrow array, held for the life of this object."""
