from collections.abc import Callable, Generator
from typing import final

from kraft_native.partition.cold_read import ColdReader, Warming
from kraft_native.partition.purgatory import Parked
from kraft_native.partition.table import PartitionTable
from kraft_native.request.client_quotas import ClientQuotas
from kraft_native.request.reply import ReplySink, RequestHandler
from kraft_native.request.slices import SliceQueue
from kraft_native.serve.fetch_session import SessionCache

@final
class FetchHandler(RequestHandler):
    table: PartitionTable
    sessions: SessionCache
    cold_reader: ColdReader | None
    bytes_max: int
    waiting_entries_max: int
    by_rack: bool
    waiting_entries: int
    def __init__(
        self,
        table: PartitionTable,
        sessions: SessionCache,
        cold_reader: ColdReader | None = None,
        *,
        bytes_max: int = 57_671_680,
        waiting_entries_max: int = 250_000,
        by_rack: bool = False,
        quotas: ClientQuotas | None = None,
        on_follower: Callable[[ReplySink], object] | None = None,
        slices: SliceQueue | None = None,
    ) -> None: ...

@final
class ParkedFetch(Parked):
    def receiving_steps(self) -> Generator[None]: ...
    def steps(self) -> Generator[None]: ...
    def answering_steps(self) -> Generator[None]: ...

@final
class FetchWarming(Warming): ...
