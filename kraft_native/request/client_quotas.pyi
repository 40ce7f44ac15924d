from collections.abc import Callable
from typing import TypeAlias, final

from kraft_native.request.replication_quota import ReplicationQuota
from kraft_native.request.reply import Reply

_Meter: TypeAlias = ReplicationQuota | None

@final
class ClientQuotas:
    def look_up_with(self, find: Callable[[bytes], tuple[_Meter, _Meter, _Meter]] | None) -> None: ...
    def charge_time(self, reply: Reply) -> int: ...
