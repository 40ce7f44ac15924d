from typing import final

@final
class ReplicaProgress:
    in_sync_count: int
    def __len__(self) -> int: ...
