"""What can be wrong with a metadata log."""

from kraft_native.errors import OperationError


class MetadataLogError(OperationError):
    """A record that contradicts the state that the records before it built, or that this release cannot read.

    Going on would give replicas different states, so nobody goes on: the node stops. The delta that raised it is of no
    further use; images are untouched.
    """

    code = -1
