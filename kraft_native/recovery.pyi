"""Opening the files of a log."""

from typing import final

from kraft_native.marks import EPOCHS_CRC_KEY as EPOCHS_CRC_KEY
from kraft_native.recovery_report import RecoveryReport

@final
class LoadedLog:
    @property
    def report(self) -> RecoveryReport: ...
