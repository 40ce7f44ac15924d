from typing import final

@final
class RecordFilter: ...
