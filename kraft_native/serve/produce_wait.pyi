"""A Produce that waits for a flush or for replicas."""

from typing import final

from kraft_native.partition.purgatory import Parked

@final
class ParkedProduce(Parked): ...
