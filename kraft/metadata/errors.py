"""Errors of a metadata log."""

from kraft_native.base.errors import OperationError


class MetadataLogError(OperationError):
    """A record that contradicts the state built by the records before it, or that this release cannot read.

    To continue would give replicas different states, so the node stops. The delta that raised it must not be used
    again; images are untouched.
    """

    code = -1
