from typing import final

from kraft_native.partition.purgatory import Observer

@final
class FetchEntry(Observer): ...
