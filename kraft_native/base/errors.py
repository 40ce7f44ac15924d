"""Exceptions of the engine, in three families, each with the Kafka error code to answer with.

`ProtocolError`: received bytes or arguments are wrong. `OperationError`: expected refusals (a deleted offset, a
sequence out of order, a read-only log). Anything else of ours is an assertion: a bug. After a `ProtocolError` or an
`OperationError` other than `StorageError` nothing has changed. All survive pickle and copy.
"""

import os


class KraftError(Exception):
    """Base of all errors. `code` is the Kafka error code for it on the wire."""

    code = -1


class ProtocolError(KraftError):
    """Invalid input; nothing was changed."""


class OperationError(KraftError):
    """An expected refusal; nothing was changed unless the class says otherwise."""


class InvalidArgumentError(KraftError, ValueError):
    """An argument is outside the allowed range; the message names the argument, the value and the range."""

    code = 42


class CorruptRecordError(ProtocolError):
    """A batch that is cut off, has a wrong CRC, or cannot be decompressed or parsed (CORRUPT_MESSAGE)."""

    code = 2


class MessageTooLargeError(ProtocolError):
    """A batch larger than `max.message.bytes`, or one that decompresses past its limits."""

    code = 10


class InvalidTimestampError(ProtocolError):
    """A record's time is too far from the clock (message.timestamp.before/after.max.ms), or its batch claims the
    leader's time.

    `record_errors` lists (index of the record in the batch, message).
    """

    code = 32

    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.record_errors = tuple(record_errors)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.record_errors), self.__dict__


class UnsupportedVersionError(ProtocolError):
    """A version of a message that is not served, or a field that this version of the message cannot carry."""

    code = 35


class MalformedMessageError(ProtocolError):
    """The bytes do not match the message's schema: cut off, a wrong length, null where it must not be."""

    code = 42


class UnsupportedForMessageFormatError(ProtocolError):
    """The batch uses a feature that its format version lacks."""

    code = 43


class UnsupportedCompressionTypeError(ProtocolError):
    """The codec is not allowed here."""

    code = 76


class InvalidRecordError(ProtocolError):
    """A well-formed batch that breaks a rule (INVALID_RECORD).

    `record_errors` lists (index of the record in the batch, message) where single records are at fault.
    """

    code = 87

    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.record_errors = tuple(record_errors)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.record_errors), self.__dict__


class OffsetOutOfRangeError(OperationError):
    """The offset is below the log start or past what this reader may see."""

    code = 1


class OutOfOrderSequenceError(OperationError):
    """An idempotent producer's sequence leaves a gap, or repeats one that is no longer kept."""

    code = 45


class InvalidProducerEpochError(OperationError):
    """The producer was fenced by a newer instance."""

    code = 47


class InvalidTxnStateError(OperationError):
    """A transactional write that does not fit the producer's transaction."""

    code = 48


class TransactionCoordinatorFencedError(OperationError):
    """A marker of a coordinator that was replaced."""

    code = 52


class FencedLeaderEpochError(OperationError):
    """A batch of an older leader epoch than the log already has."""

    code = 74


class UnknownLeaderEpochError(OperationError):
    """A request of a newer leader epoch than this node knows."""

    code = 75


class OffsetNotAvailableError(OperationError):
    """A new leader does not know the high watermark yet."""

    code = 78


class NotLeaderOrFollowerError(OperationError):
    """This node does not lead the partition, or does not have the requested replica."""

    code = 6


class NotEnoughReplicasError(OperationError):
    """Fewer replicas are in sync than min.insync.replicas."""

    code = 19


class StorageError(OperationError):
    """A file operation failed. If it was a write or a flush, the log is read-only from then on.

    `path` is the file, `errno` the system's error number, `doing` the operation.
    """

    code = 56

    def __init__(self, path: str, errno: int, doing: str = "") -> None:
        self.path = path
        self.errno = errno
        text = f"{path}: {os.strerror(errno)} (errno {errno})"
        super().__init__(f"{doing}: {text}" if doing else text)
        self.doing = doing

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.errno, self.doing), self.__dict__


class LogReadOnlyError(OperationError):
    """The log refuses writes after a failed write or flush; `cause` is that first failure."""

    code = 56

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.cause = cause

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.cause), self.__dict__


class LogLockedError(OperationError):
    """Another writer holds the directory."""

    code = 56


class LogClosedError(OperationError):
    """The log, segment or view was closed."""

    code = 56


class WrongThreadError(OperationError):
    """A call from another thread than the one that opened the log."""


class BufferPinnedError(OperationError):
    """The memory is still being read."""


class CorruptLogError(OperationError):
    """Damage inside a stored log. Reading may continue at `next_offset`.

    `path` and `position`: the place where the first damaged byte may be. `offset`: the first offset that cannot be
    read. `next_offset`: the first readable one after the damage (-1: none is known).
    """

    code = 56

    def __init__(self, path: str, position: int, offset: int, next_offset: int, what: str) -> None:
        super().__init__(f"{path}: damaged at position {position}: offsets {offset} to "
                         f"{next_offset - 1 if next_offset >= 0 else 'the end'} cannot be read: {what}")
        self.path = path
        self.position = position
        self.offset = offset
        self.next_offset = next_offset
        self.what = what

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.position, self.offset, self.next_offset, self.what), self.__dict__


class CorruptFileError(OperationError):
    """An index, checkpoint or snapshot file whose content contradicts itself; it can be rebuilt from the log."""

    code = 56


class TimestampWarning(UserWarning):
    """A record's time that is most likely not in milliseconds: it lies before the year 2000."""


BY_CODE: dict[int, type[KraftError]] = {
    error.code: error
    for error in (
        CorruptRecordError, MessageTooLargeError, InvalidTimestampError, UnsupportedForMessageFormatError,
        UnsupportedCompressionTypeError, InvalidRecordError, OffsetOutOfRangeError, OutOfOrderSequenceError,
        InvalidProducerEpochError, InvalidTxnStateError, TransactionCoordinatorFencedError, FencedLeaderEpochError,
        InvalidArgumentError,
    )
}
