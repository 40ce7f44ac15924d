from typing import final

@final
class FetchWriter: ...
