from typing import final

from kraft_native.config import LogConfig
from kraft_native.marks import EPOCHS_CRC_KEY as EPOCHS_CRC_KEY

def note_fork() -> None:
    """In a child: logs that were open belong to the parent, and so does the thread of the shared flusher."""

@final
class LogCore:
    @property
    def directory(self) -> bytes: ...
    @property
    def config(self) -> LogConfig: ...
