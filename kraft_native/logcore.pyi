from typing import final

from kraft_native.config import LogConfig

@final
class LogCore:
    @property
    def directory(self) -> bytes: ...
    @property
    def config(self) -> LogConfig: ...
