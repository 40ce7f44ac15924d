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
    """Somebody's Arrow array, held until this object goes."""
