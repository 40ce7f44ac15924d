"""Stores that are compared: each appends values, reads them in their order, and returns one by its number.

`durable`: a call returns when its values are on the disk, by the library's own setting for that. Values are numbered
from 0 in the order of their appends; stores of keys have the number as a key of 8 bytes, which sorts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from kraft import Log

LMDB_BYTES_MAX = 8 << 30


def key_of(number: int) -> bytes:
    return number.to_bytes(8, "big")


class Store(Protocol):
    """One open store; used by one thread."""

    def append(self, value: bytes) -> object:
        """Append one value."""

    def append_all(self, values: Sequence[bytes]) -> object:
        """Append values by the library's own means for many: a batch or a transaction."""

    def values(self) -> Iterator[bytes | None]:
        """Yield all values in their order."""

    def get(self, number: int) -> bytes | None:
        """Return one value."""

    def close(self) -> object:
        """Close the store."""


class KraftStore:
    def __init__(self, path: Path, *, durable: bool) -> None:
        self.log = Log.open(path, durability="per-append" if durable else "page-cache")
        self.append = self.log.append_record
        self.append_all = self.log.append_records

    def values(self) -> Iterator[bytes | None]:
        for record in self.log.records():
            yield record.value

    def get(self, number: int) -> bytes | None:
        found = self.log.get(number)
        assert found is not None
        return found.value

    def close(self) -> None:
        self.log.close()


class SqliteStore:
    def __init__(self, path: Path, *, durable: bool) -> None:
        path.mkdir(exist_ok=True)
        self.connection = sqlite3.connect(path / "values.db", isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
        self.connection.execute("CREATE TABLE IF NOT EXISTS log (number INTEGER PRIMARY KEY, value BLOB)")

    def append(self, value: bytes) -> None:
        self.connection.execute("INSERT INTO log (value) VALUES (?)", (value,))

    def append_all(self, values: Sequence[bytes]) -> None:
        self.connection.execute("BEGIN")
        self.connection.executemany("INSERT INTO log (value) VALUES (?)", ((value,) for value in values))
        self.connection.execute("COMMIT")

    def values(self) -> Iterator[bytes]:
        for value, in self.connection.execute("SELECT value FROM log ORDER BY number"):
            yield value

    def get(self, number: int) -> bytes:
        value: bytes
        value, = self.connection.execute("SELECT value FROM log WHERE number = ?", (number + 1,)).fetchone()
        return value

    def close(self) -> None:
        self.connection.close()


class LmdbStore:
    def __init__(self, path: Path, *, durable: bool) -> None:
        import lmdb

        self.environment = lmdb.open(str(path), map_size=LMDB_BYTES_MAX, sync=durable, metasync=durable,
                                     writemap=False)
        self.next = 0

    def append(self, value: bytes) -> None:
        self.append_all((value,))

    def append_all(self, values: Sequence[bytes]) -> None:
        with self.environment.begin(write=True) as transaction:
            for value in values:
                transaction.put(key_of(self.next), value, append=True)
                self.next += 1

    def values(self) -> Iterator[bytes]:
        with self.environment.begin(buffers=False) as transaction:
            yield from transaction.cursor().iternext(keys=False, values=True)

    def get(self, number: int) -> bytes:
        with self.environment.begin() as transaction:
            return bytes(transaction.get(key_of(number)) or b"")

    def close(self) -> None:
        self.environment.close()


class RocksStore:
    def __init__(self, path: Path, *, durable: bool) -> None:
        from rocksdict import Options, Rdict, WriteBatch, WriteOptions

        self.database = Rdict(str(path), Options(raw_mode=True))
        options = WriteOptions()
        options.sync = durable
        self.database.set_write_options(options)
        self.new_batch: Callable[[], Any] = lambda: WriteBatch(raw_mode=True)
        self.next = 0

    def append(self, value: bytes) -> None:
        self.database[key_of(self.next)] = value
        self.next += 1

    def append_all(self, values: Sequence[bytes]) -> None:
        batch = self.new_batch()
        for value in values:
            batch.put(key_of(self.next), value)
            self.next += 1
        self.database.write(batch)

    def values(self) -> Iterator[bytes]:
        yield from self.database.values()

    def get(self, number: int) -> bytes:
        return bytes(self.database[key_of(number)])

    def close(self) -> None:
        self.database.close()


class PersistQueueStore:
    """persist-queue's queue in SQLite. It has no transaction of many values, and one value is not read by its number.
    """

    def __init__(self, path: Path, *, durable: bool) -> None:
        from persistqueue import SQLiteQueue

        self.queue: Any = SQLiteQueue(str(path), auto_commit=True)
        self.queue._putter.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
        self.append = self.queue.put

    def append_all(self, values: Sequence[bytes]) -> None:
        for value in values:
            self.queue.put(value)

    def values(self) -> Iterator[bytes]:
        for _ in range(self.queue.size):
            yield self.queue.get()

    def get(self, number: int) -> bytes:
        raise LookupError(number)

    def close(self) -> None:
        self.queue.close()


class DiskCacheStore:
    """diskcache's Deque, which is never durable at once: SQLite without `synchronous`."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        from diskcache import Deque

        assert not durable
        self.deque = Deque(directory=str(path))
        self.append = self.deque.append

    def append_all(self, values: Sequence[bytes]) -> None:
        with self.deque.transact():
            for value in values:
                self.deque.append(value)

    def values(self) -> Iterator[bytes]:
        yield from self.deque

    def get(self, number: int) -> bytes:
        return bytes(self.deque[number])

    def close(self) -> None:
        self.deque.cache.close()


Open = Callable[..., Store]

STORES: dict[str, Open] = {"kraft": KraftStore, "SQLite": SqliteStore, "LMDB": LmdbStore, "RocksDB": RocksStore,
                           "persist-queue": PersistQueueStore, "diskcache": DiskCacheStore}
MODULES = {"LMDB": "lmdb", "RocksDB": "rocksdict", "persist-queue": "persistqueue", "diskcache": "diskcache"}
"""The modules of the stores that need one."""
NEVER_DURABLE = ("diskcache",)
WITHOUT_NUMBERS = ("persist-queue",)
ONE_BY_ONE = ("persist-queue",)
"""Stores without a call or a transaction for many values."""
