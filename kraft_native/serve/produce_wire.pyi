from typing import Self, final

@final
class ProduceData:
    def __new__(cls) -> Self: ...
