"""Reasons for which the core refuses a request of its own node."""

from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import OperationError


class NotLeaderError(OperationError):
    """This replica does not lead, or not in the requested epoch. Nothing was appended."""

    code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class UpgradeRefusedError(OperationError):
    """kraft.version cannot be raised to the requested level now. Nothing was appended."""

    code = int(ErrorCode.INVALID_UPDATE_VERSION)
