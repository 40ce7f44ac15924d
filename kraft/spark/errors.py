"""What this part raises besides the errors of the engine and of the cluster."""

from kraft_native.errors import KraftError


class SparkUnavailableError(KraftError, RuntimeError):
    """Spark cannot be started here; the message says what is missing and what to install."""


class VersionMismatchError(KraftError):
    """The kraft of a task is of another version than its driver's; the message has both."""


class DataLossError(KraftError):
    """Offsets that the query was to read are not there (any more), and `failOnDataLoss` is on; the message has them."""
