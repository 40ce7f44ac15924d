from typing import Final, final

STATE_KEY: Final[str]
CLEANER_CHECKPOINT: Final[str]

@final
class Dirty: ...
