from collections.abc import Callable, Generator
from typing import final

from kraft_native.client_quotas import ClientQuotas
from kraft_native.coldread import ColdReader, Warming
from kraft_native.fetch_session import SessionCache
from kraft_native.purgatory import Parked
from kraft_native.reply import ReplySink, RequestHandler
from kraft_native.slices import SliceQueue
from kraft_native.table import PartitionTable

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
