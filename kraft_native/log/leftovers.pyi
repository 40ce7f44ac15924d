from typing import final

@final
class Names: ...
