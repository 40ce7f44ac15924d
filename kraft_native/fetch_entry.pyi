from typing import final

from kraft_native.purgatory import Observer

@final
class FetchEntry(Observer): ...
