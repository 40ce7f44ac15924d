from typing import final

@final
class TxnChecker:
    def __init__(self, directory: bytes) -> None: ...

def last_offset_of(entry: tuple[int, int, int, int]) -> int: ...
