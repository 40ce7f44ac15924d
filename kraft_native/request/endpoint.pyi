"""A connection as other parts see it."""

from typing_extensions import disjoint_base

from kraft_native.request.reply import ReplySink

@disjoint_base
class Endpoint(ReplySink):
    """Abstract; the connection is the only subclass."""
