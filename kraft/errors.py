"""Exceptions of the engine, under the name that applications import.

`kraft_native.base.errors` defines and documents them. All are `KraftError`s with Kafka's error code as `code`, and all
survive pickling.
"""

from kraft_native.base.errors import (
    BY_CODE,
    BufferPinnedError,
    CorruptFileError,
    CorruptLogError,
    CorruptRecordError,
    FencedLeaderEpochError,
    InvalidArgumentError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTxnStateError,
    KraftError,
    LogClosedError,
    LogLockedError,
    LogReadOnlyError,
    MalformedMessageError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    OperationError,
    OutOfOrderSequenceError,
    ProtocolError,
    StorageError,
    TimestampWarning,
    TransactionCoordinatorFencedError,
    UnknownLeaderEpochError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
    UnsupportedVersionError,
    WrongThreadError,
)

__all__ = [
    "BY_CODE", "BufferPinnedError", "CorruptFileError", "CorruptLogError", "CorruptRecordError",
    "FencedLeaderEpochError", "InvalidArgumentError", "InvalidProducerEpochError", "InvalidRecordError",
    "InvalidTimestampError", "InvalidTxnStateError", "KraftError", "LogClosedError", "LogLockedError",
    "LogReadOnlyError", "MalformedMessageError", "MessageTooLargeError", "NotEnoughReplicasError",
    "NotLeaderOrFollowerError", "OffsetNotAvailableError", "OffsetOutOfRangeError", "OperationError",
    "OutOfOrderSequenceError", "ProtocolError", "StorageError", "TimestampWarning",
    "TransactionCoordinatorFencedError", "UnknownLeaderEpochError",
    "UnsupportedCompressionTypeError", "UnsupportedForMessageFormatError", "UnsupportedVersionError",
    "WrongThreadError",
]
