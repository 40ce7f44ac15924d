from typing import Self, final

@final
class Verification:
    producer_id: int
    producer_epoch: int
    sequence_min: int
    adds: bool
    def __init__(self, *args: object, **kwargs: object) -> None: ...

@final
class Verifications:
    def __new__(cls) -> Self: ...
    def __len__(self) -> int: ...
