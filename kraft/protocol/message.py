"""What all generated message classes share.

A message is a class with slots, one per field of its schema, in the order of the wire. It is built with keywords (a
field that is left out has the schema's default), compared by value, and can be changed. Structs inside it are classes
of the same kind in the same module. Lists are copied when a message is built, so any iterable can be given.

The classes are plain generated code and no dataclasses, because making a dataclass takes a hundred times as long as
making such a class, and a node needs several hundred of them to start.
"""

from abc import abstractmethod
from collections.abc import Generator
from typing import ClassVar, Self
from uuid import UUID

from kraft_native.errors import InvalidArgumentError, KraftError, MalformedMessageError, UnsupportedVersionError
from kraft_native.wire import WireReader, WireWriter
from kraft_native.wire_steps import write_steps

Tags = tuple[tuple[int, bytes], ...]

# `FLEXIBLE_FROM` of a message that has no flexible version.
NEVER = 0x8000

ZERO_UUID = UUID(int=0)

BYTES_MAX = 0x7FFF_FFFF
"""What a frame can carry."""


class MessageSizeError(KraftError):
    """A message has more bytes than may be sent."""


class Struct:
    """A part of a message. Equal to another of the same class with equal fields."""

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
        """A copy with some fields changed. The structs inside are the same objects as before."""
        return type(self)(**({name: getattr(self, name) for name in self.__slots__} | changes))

    @classmethod
    @abstractmethod
    def read(cls, r: WireReader, version: int) -> Self:
        """Reads the struct as `version` of its message has it. Raises `MalformedMessageError`."""

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        """As `read`, a generator that gives way after every few elements of an array."""
        yield
        return cls.read(r, version)

    @abstractmethod
    def write(self, w: WireWriter, version: int) -> None:
        """Appends the struct as `version` of its message has it. A field that the version does not carry must have its
        default, unless the schema says that it may be dropped (`ignorable`): else `UnsupportedVersionError`.
        """


class Message(Struct):
    """A whole message.

    `API_KEY` is the schema's `apiKey`: of a request and its response the API, of a record its type, of a coordinator's
    key its type; -1 where the schema has none. `VERSIONS` are all that can be encoded and decoded.
    """

    __slots__: tuple[str, ...] = ()
    API_KEY: ClassVar[int] = -1
    VERSIONS: ClassVar[range] = range(0)
    FLEXIBLE_FROM: ClassVar[int] = NEVER

    @classmethod
    def reader(cls, data: bytes | bytearray | memoryview, version: int) -> WireReader:
        """A reader of `data` in the encoding of `version`."""
        if version not in cls.VERSIONS:
            raise UnsupportedVersionError(
                f"{cls.__name__} has the versions {cls.VERSIONS.start} to {cls.VERSIONS.stop - 1}, not {version}")
        return WireReader(data, version >= cls.FLEXIBLE_FROM)

    @classmethod
    def decode_steps(cls, data: bytes, version: int, elements_max: int) -> Generator[None, None, Self]:
        """As `decode`, a generator that gives way after every few elements. A message with more than `elements_max`
        array elements and tags is malformed."""
        if version not in cls.VERSIONS:
            raise UnsupportedVersionError(
                f"{cls.__name__} has the versions {cls.VERSIONS.start} to {cls.VERSIONS.stop - 1}, not {version}")
        r = WireReader(data, version >= cls.FLEXIBLE_FROM, elements_max)
        try:
            return (yield from cls.read_steps(r, version))
        except MalformedMessageError as error:
            raise MalformedMessageError(f"{cls.__name__} version {version}: {error}") from None

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview, version: int, *, exact: bool = False) -> Self:
        """The message that `data` begins with. Bytes after it are ignored, as Kafka does with requests, unless `exact`.

        Raises `MalformedMessageError`, and `UnsupportedVersionError` for a version outside `VERSIONS`. Memory taken
        is at most proportional to the size of `data`, whatever lengths it claims, and bounded by `ELEMENTS_MAX` of
        `kraft_native.wire` besides the bytes themselves.
        """
        r = cls.reader(data, version)
        try:
            message = cls.read(r, version)
            if exact:
                r.finish()
        except MalformedMessageError as error:
            raise MalformedMessageError(f"{cls.__name__} version {version}: {error}") from None
        return message

    def encode(self, version: int) -> bytes:
        """The message as bytes. Raises `UnsupportedVersionError` for a version outside `VERSIONS` or a field that
        `version` cannot carry, `InvalidArgumentError` for a value outside its type's range.
        """
        if version not in self.VERSIONS:
            raise UnsupportedVersionError(
                f"{type(self).__name__} has the versions {self.VERSIONS.start} to {self.VERSIONS.stop - 1}, "
                f"not {version}")
        w = WireWriter(version >= self.FLEXIBLE_FROM)
        try:
            self.write(w, version)
        except OverflowError as error:
            raise InvalidArgumentError(f"{type(self).__name__} version {version}: {error}") from error
        return w.finish()

    def encode_steps(
        self, version: int, bytes_max: int = BYTES_MAX
    ) -> Generator[None, None, list[bytes | bytearray]]:
        """As `encode`, a generator that gives way after every few elements of an array of structs. It returns the parts
        that follow each other, large ones but the last. Raises `MessageSizeError` soon after they have more than
        `bytes_max`."""
        if version not in self.VERSIONS:
            raise UnsupportedVersionError(
                f"{type(self).__name__} has the versions {self.VERSIONS.start} to {self.VERSIONS.stop - 1}, "
                f"not {version}")
        w = WireWriter(version >= self.FLEXIBLE_FROM, [])
        parts: list[bytes | bytearray] = []
        count = size = 0               # of parts that are as large as they get
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


def absent(struct: Struct, field: str, version: int) -> UnsupportedVersionError:
    """The refusal to encode a field that is set and that `version` does not carry."""
    return UnsupportedVersionError(
        f"{type(struct).__name__}.{field} is {getattr(struct, field)!r}, and version {version} cannot carry it")
