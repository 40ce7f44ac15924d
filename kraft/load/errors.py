"""What a load that cannot be run raises."""

from kraft_native.errors import KraftError


class InvalidWorkloadError(KraftError, ValueError):
    """A workload's part does not fit; the message names it, its value and what is allowed."""

    code = 42
