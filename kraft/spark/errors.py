"""Errors of this part, besides those of the engine and of the cluster."""

from kraft_native.base.errors import KraftError


class SparkUnavailableError(KraftError, RuntimeError):
    """Spark cannot be started here. The message says what is missing and what to install."""


class VersionMismatchError(KraftError):
    """The kraft of a task has another version than its driver's. The message has both."""


class DataLossError(KraftError):
    """Offsets that the query was to read do not exist (any more), and `failOnDataLoss` is on. The message has them."""
