from collections.abc import Callable
from typing import final

from kraft_native.replication_quota import ReplicationQuota

@final
class ClientQuotas:
    def look_up_with(
        self, find: Callable[[bytes], tuple[ReplicationQuota | None, ReplicationQuota | None]] | None
    ) -> None: ...
