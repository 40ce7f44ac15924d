from typing import final

def majority_value(values: list[int]) -> int: ...
@final
class ReplicaProgress:
    in_sync_count: int
    def __len__(self) -> int: ...
