"""Exceptions of the engine, in three families, each with the Kafka error code to answer with.

`ProtocolError`: received bytes or arguments are wrong. `OperationError`: expected refusals (a deleted offset, a
sequence out of order, a read-only log). Anything else of ours is an assertion: a bug. After a `ProtocolError` or an
`OperationError` other than `StorageError` nothing has changed. All survive pickle and copy.
"""

class KraftError(Exception):
    """Base of all errors. `code` is the Kafka error code for it on the wire."""

    code: int

class ProtocolError(KraftError):
    """Invalid input; nothing was changed."""

class OperationError(KraftError):
    """An expected refusal; nothing was changed unless the class says otherwise."""

class InvalidArgumentError(KraftError, ValueError):
    """An argument is outside the allowed range; the message names the argument, the value and the range."""

    code: int

class CorruptRecordError(ProtocolError):
    """A batch that is cut off, has a wrong CRC, or cannot be decompressed or parsed (CORRUPT_MESSAGE)."""

    code: int

class MessageTooLargeError(ProtocolError):
    """A batch larger than `max.message.bytes`, or one that decompresses past its limits."""

    code: int

class InvalidTimestampError(ProtocolError):
    """A record's time is too far from the clock (message.timestamp.before/after.max.ms), or its batch claims the
    leader's time.

    `record_errors` lists (index of the record in the batch, message).
    """

    code: int
    record_errors: tuple[tuple[int, str], ...]
    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None: ...

class UnsupportedVersionError(ProtocolError):
    """A version of a message that is not served, or a field that this version of the message cannot carry."""

    code: int

class MalformedMessageError(ProtocolError):
    """The bytes do not match the message's schema: cut off, a wrong length, null where it must not be."""

    code: int

class UnsupportedForMessageFormatError(ProtocolError):
    """The batch uses a feature that its format version lacks."""

    code: int

class UnsupportedCompressionTypeError(ProtocolError):
    """The codec is not allowed here."""

    code: int

class InvalidRecordError(ProtocolError):
    """A well-formed batch that breaks a rule (INVALID_RECORD).

    `record_errors` lists (index of the record in the batch, message) where single records are at fault.
    """

    code: int
    record_errors: tuple[tuple[int, str], ...]

    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None: ...

class OffsetOutOfRangeError(OperationError):
    """The offset is below the log start or past what this reader may see."""

    code: int

class OutOfOrderSequenceError(OperationError):
    """An idempotent producer's sequence leaves a gap, or repeats one that is no longer kept."""

    code: int

class InvalidProducerEpochError(OperationError):
    """The producer was fenced by a newer instance."""

    code: int

class InvalidTxnStateError(OperationError):
    """A transactional write that does not fit the producer's transaction."""

    code: int

class TransactionCoordinatorFencedError(OperationError):
    """A marker of a coordinator that was replaced."""

    code: int

class FencedLeaderEpochError(OperationError):
    """A batch of an older leader epoch than the log already has."""

    code: int

class UnknownLeaderEpochError(OperationError):
    """A request of a newer leader epoch than this node knows."""

    code: int

class NotLeaderOrFollowerError(OperationError):
    """This node does not lead the partition, or does not have the requested replica."""

    code: int

class NotEnoughReplicasError(OperationError):
    """Fewer replicas are in sync than min.insync.replicas."""

    code: int

class StorageError(OperationError):
    """A file operation failed. If it was a write or a flush, the log is read-only from then on.

    `path` is the file, `errno` the system's error number, `doing` the operation.
    """

    code: int
    path: str
    errno: int
    doing: str

    def __init__(self, path: str, errno: int, doing: str = "") -> None: ...

class LogReadOnlyError(OperationError):
    """The log refuses writes after a failed write or flush; `cause` is that first failure."""

    code: int
    cause: BaseException | None

    def __init__(self, message: str, cause: BaseException | None = None) -> None: ...

class LogLockedError(OperationError):
    """Another writer holds the directory."""

    code: int

class LogClosedError(OperationError):
    """The log, segment or view was closed."""

    code: int

class WrongThreadError(OperationError):
    """A call from another thread than the one that opened the log."""

class BufferPinnedError(OperationError):
    """The memory is still being read."""

class CorruptLogError(OperationError):
    """Damage inside a stored log. Reading may continue at `next_offset`.

    `path` and `position`: the place where the first damaged byte may be. `offset`: the first offset that cannot be
    read. `next_offset`: the first readable one after the damage (-1: none is known).
    """

    code: int
    path: str
    position: int
    offset: int
    next_offset: int
    what: str

    def __init__(self, path: str, position: int, offset: int, next_offset: int, what: str) -> None: ...

class CorruptFileError(OperationError):
    """An index, checkpoint or snapshot file whose content contradicts itself; it can be rebuilt from the log."""

    code: int

class TimestampWarning(UserWarning):
    """A record's time that is most likely not in milliseconds: it lies before the year 2000."""

BY_CODE: dict[int, type[KraftError]]
