from typing import final

from kraft_native.partition.purgatory import Parked

@final
class ParkedProduce(Parked): ...
