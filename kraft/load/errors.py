"""Errors of a load that cannot be run."""

from kraft_native.base.errors import KraftError


class InvalidWorkloadError(KraftError, ValueError):
    """A part of a workload is not valid; the message has its name, its value and the allowed values."""

    code = 42
