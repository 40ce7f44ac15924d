from typing import final

from kraft_native.log.marks import EPOCHS_CRC_KEY as EPOCHS_CRC_KEY
from kraft_native.log.recovery_report import RecoveryReport

@final
class LoadedLog:
    @property
    def report(self) -> RecoveryReport: ...
