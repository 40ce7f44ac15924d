"""Why the core refuses what its own node asks of it."""

from kraft.protocol.error_codes import ErrorCode
from kraft_native.errors import OperationError


class NotLeaderError(OperationError):
    """This replica does not lead, or not in the epoch that was asked for. Nothing was appended."""

    code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class UpgradeRefusedError(OperationError):
    """kraft.version cannot be brought to that level now. Nothing was appended."""

    code = int(ErrorCode.INVALID_UPDATE_VERSION)
