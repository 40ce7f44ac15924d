from typing import final

LEFTOVERS: tuple[bytes, ...]

@final
class LoadedLog:
    @property
    def clean(self) -> bool: ...
    @property
    def notes(self) -> list[tuple[bytes, str]]: ...
