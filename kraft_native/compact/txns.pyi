from typing import final

@final
class CleanedTransactions: ...
