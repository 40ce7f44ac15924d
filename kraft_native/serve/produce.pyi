from collections.abc import Callable, Generator, Sequence
from typing import final

from kraft_native.log.batch_check import BatchCheck
from kraft_native.partition.table import PartitionTable
from kraft_native.request.client_quotas import ClientQuotas
from kraft_native.request.reply import RequestHandler
from kraft_native.request.slices import SliceQueue

@final
class ProduceHandler(RequestHandler):
    table: PartitionTable
    verifier: Callable[[str, int, int, list[tuple[str, int]], bool, Callable[[Sequence[int]], None]], object] | None
    verifies: bool
    def __init__(self, table: PartitionTable, offload: Callable[[DeferredProduce], object] | None = None,
                 quotas: ClientQuotas | None = None,
                 on_failure: Callable[[BaseException], object] | None = None,
                 slices: SliceQueue | None = None) -> None: ...

@final
class DeferredProduce:
    check: BatchCheck
    peer_host: str
    def steps(self) -> Generator[None]: ...
    def run(self) -> None: ...
    def resume(self) -> None: ...
    def verified(self, codes: Sequence[int]) -> None: ...
