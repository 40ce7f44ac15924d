"""Base of all generated message classes.

A message is a class with slots, one for each field of its schema, in the order of the wire. It is built with keywords
(an omitted field has the schema's default), compared by value, and mutable. Structs inside it are classes of the same
kind in the same module. Lists are copied when a message is built, so any iterable can be given.

The classes are plain generated code and not dataclasses. To create a dataclass takes a hundred times as long, and a
node needs several hundred message classes to start.
"""

from abc import abstractmethod
from collections.abc import Generator
from typing import ClassVar, Self
from uuid import UUID

from kraft_native.base.errors import InvalidArgumentError, KraftError, MalformedMessageError, UnsupportedVersionError
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import write_steps

Tags = tuple[tuple[int, bytes], ...]
Offsets = tuple[tuple[int, int], ...]
"""Ranges of offsets, each from the first to the last one."""

# `FLEXIBLE_FROM` of a message that has no flexible version.
NEVER = 0x8000

ZERO_UUID = UUID(int=0)

BYTES_MAX = 0x7FFF_FFFF
"""Largest size that a frame can carry."""


class MessageSizeError(KraftError):
    """A message has more bytes than may be sent."""


class Struct:
    """Part of a message. Equal to another of the same class with equal fields."""

    __slots__: tuple[str, ...] = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"

    def replace(self, **changes: object) -> Self:
        """Return a copy with some fields changed. The structs inside are the same objects as before."""
        return type(self)(**({name: getattr(self, name) for name in self.__slots__} | changes))

    @classmethod
    @abstractmethod
    def read(cls, r: WireReader, version: int) -> Self:
        """Read the struct in the form that `version` of its message has. Raises `MalformedMessageError`."""

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        """Like `read`, as a generator that yields after every few elements of an array."""
        yield
        return cls.read(r, version)

    @abstractmethod
    def write(self, w: WireWriter, version: int) -> None:
        """Append the struct in the form that `version` of its message has. A field that the version does not carry must
        have its default, unless the schema says that it may be dropped (`ignorable`). Otherwise raise
        `UnsupportedVersionError`."""


class Message(Struct):
    """Whole message.

    `API_KEY` is the schema's `apiKey`: the API of a request and its response, the type of a record, the type of a
    coordinator's key; -1 where the schema has none. `VERSIONS` are all that can be encoded and decoded.

    `caused` is set for the response to a request that changed the cluster's metadata, and is no field of it: see
    `caused_by`.
    """

    __slots__: tuple[str, ...] = ("caused",)
    caused: Offsets
    API_KEY: ClassVar[int] = -1
    VERSIONS: ClassVar[range] = range(0)
    FLEXIBLE_FROM: ClassVar[int] = NEVER

    @classmethod
    def reader(cls, data: bytes | bytearray | memoryview, version: int) -> WireReader:
        """Return a reader of `data` in the encoding of `version`."""
        if version not in cls.VERSIONS:
            raise _unknown_version(cls, version)
        return WireReader(data, version >= cls.FLEXIBLE_FROM)

    @classmethod
    def decode_steps(cls, data: bytes, version: int, elements_max: int) -> Generator[None, None, Self]:
        """Like `decode`, as a generator that yields after every few elements. A message with more than `elements_max`
        array elements and tags is malformed."""
        if version not in cls.VERSIONS:
            raise _unknown_version(cls, version)
        r = WireReader(data, version >= cls.FLEXIBLE_FROM, elements_max)
        try:
            return (yield from cls.read_steps(r, version))
        except MalformedMessageError as error:
            raise MalformedMessageError(f"{cls.__name__} version {version}: {error}") from None

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview, version: int, *, exact: bool = False) -> Self:
        """Return the message that `data` begins with. Bytes after it are ignored, as Kafka does with requests, unless
        `exact`.

        Raises `MalformedMessageError`, and `UnsupportedVersionError` for a version outside `VERSIONS`. Allocated memory
        is at most proportional to the size of `data`, whatever lengths it claims. Besides the bytes themselves it is
        bounded by `ELEMENTS_MAX` of `kraft_native.base.wire`.
        """
        if version not in cls.VERSIONS:
            raise _unknown_version(cls, version)
        r = WireReader(data, version >= cls.FLEXIBLE_FROM)
        try:
            message = cls.read(r, version)
            if exact:
                r.finish()
        except MalformedMessageError as error:
            raise MalformedMessageError(f"{cls.__name__} version {version}: {error}") from None
        return message

    def encode(self, version: int, frame: bytes = b"") -> bytes:
        """Return the message as bytes, after those of `frame`. Raise `UnsupportedVersionError` for a version outside
        `VERSIONS` or a field that `version` cannot carry, and `InvalidArgumentError` for a value outside its type's
        range."""
        if version not in self.VERSIONS:
            raise _unknown_version(type(self), version)
        w = WireWriter(version >= self.FLEXIBLE_FROM)
        if frame:
            w.raw(frame)
        try:
            self.write(w, version)
        except OverflowError as error:
            raise InvalidArgumentError(f"{type(self).__name__} version {version}: {error}") from error
        return w.finish()

    def encode_steps(
        self, version: int, bytes_max: int = BYTES_MAX
    ) -> Generator[None, None, list[bytes | bytearray]]:
        """Like `encode`, as a generator that yields after every few elements of an array of structs. It returns
        consecutive parts, all of them large except the last. Raises `MessageSizeError` soon after they exceed
        `bytes_max`."""
        if version not in self.VERSIONS:
            raise _unknown_version(type(self), version)
        w = WireWriter(version >= self.FLEXIBLE_FROM, [])
        parts: list[bytes | bytearray] = []
        count = size = 0               # of parts that have reached their final size
        try:
            for _ in write_steps(w, parts, (self,), version):
                if len(parts) > count + 1:
                    size += sum(map(len, parts[count:-1]))
                    count = len(parts) - 1
                    if size > bytes_max:
                        raise MessageSizeError(
                            f"{type(self).__name__} version {version} has more than {bytes_max} bytes")
                yield
        except OverflowError as error:
            raise InvalidArgumentError(f"{type(self).__name__} version {version}: {error}") from error
        return parts


def caused_by(response: Message) -> Offsets:
    """Return which records of the metadata log the request of this response caused, as far as this node knows."""
    return getattr(response, "caused", ())


def _unknown_version(kind: type[Message], version: int) -> UnsupportedVersionError:
    return UnsupportedVersionError(
        f"{kind.__name__} has the versions {kind.VERSIONS.start} to {kind.VERSIONS.stop - 1}, not {version}")


def absent(struct: Struct, field: str, version: int) -> UnsupportedVersionError:
    """Return the error for a field that is set and that `version` does not carry."""
    return UnsupportedVersionError(
        f"{type(struct).__name__}.{field} is {getattr(struct, field)!r}, and version {version} cannot carry it")
