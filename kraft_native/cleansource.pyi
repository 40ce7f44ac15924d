from typing import final

@final
class BatchSource: ...
