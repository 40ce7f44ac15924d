from typing import final

@final
class FetchEntry: ...
