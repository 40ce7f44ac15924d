from typing import final

from kraft_native.purgatory import Parked
from kraft_native.reply import RequestHandler
from kraft_native.table import PartitionTable

@final
class ProduceHandler(RequestHandler):
    table: PartitionTable
    def __init__(self, table: PartitionTable) -> None: ...

@final
class ParkedProduce(Parked): ...
