"""Errors of a local cluster."""

from kraft_native.base.errors import KraftError


class LocalNodeError(KraftError, AssertionError):
    """A node did not start, did not stop, or ended by itself; the message has the end of its log."""


class FaultDidNotBiteError(KraftError, AssertionError):
    """A requested fault has no visible effect: a test that continues would show nothing."""
