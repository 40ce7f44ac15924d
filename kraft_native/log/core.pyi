from typing import final

from kraft_native.log.marks import EPOCHS_CRC_KEY as EPOCHS_CRC_KEY
from kraft_native.segment.config import LogConfig

def note_fork() -> None: ...

@final
class LogCore:
    @property
    def directory(self) -> bytes: ...
    @property
    def config(self) -> LogConfig: ...
