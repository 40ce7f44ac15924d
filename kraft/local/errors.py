"""What goes wrong with a local cluster."""

from kraft_native.errors import KraftError


class LocalNodeError(KraftError, AssertionError):
    """A node did not start, did not stop, or ended by itself; the message has the end of its log."""


class FaultDidNotBiteError(KraftError, AssertionError):
    """A fault was asked for and cannot be seen: a test that goes on would show nothing."""
