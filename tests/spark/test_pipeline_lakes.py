"""Exports that are also Delta or Iceberg tables: their own libraries see every record once, whatever died meanwhile."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from kraft.cli.command import run as command
from kraft.pipeline import lakes
from kraft.pipeline.table import Table
from kraft_native.file import file_io
from tests.pipeline.replicas import START_MS, batches, write

# Their libraries are installed by `make test-spark`.
pytestmark = pytest.mark.long


@pytest.fixture(params=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    pytest.importorskip(lakes.PACKAGES[name])
    return name


def export(table: Path, logs: Path, kind: str, *more: str) -> int:
    return command(["pipeline", "export", str(table), "--from", str(logs), "--format", kind, *more])


def rows(table: Path, kind: str, since: dt.datetime | None = None) -> list[tuple[Any, ...]]:
    """Return (partition, offset, value, time) as the format's own library reads them."""
    columns = ["partition", "offset", "value", "timestamp"]
    if kind == "delta":
        from deltalake import DeltaTable

        filters = None if since is None else [("timestamp", ">=", since)]
        found = DeltaTable(table).to_pyarrow_table(columns=columns, filters=filters)
    else:
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("kraft", uri=f"sqlite:///{table / '_kraft' / 'iceberg.db'}")
        condition = {} if since is None else {"row_filter": f"timestamp >= '{since.isoformat()}'"}
        found = catalog.load_table(("kraft", "orders")).scan(selected_fields=tuple(columns), **condition).to_arrow()
        catalog.close()
    return sorted(zip(*(found[name].to_pylist() for name in columns), strict=True))


def expected(count: int) -> list[tuple[Any, ...]]:
    """`count` batches of five records of one partition; see `batches`."""
    return [(0, 5 * number + index, b"value %d" % (5 * number + index),
             dt.datetime.fromtimestamp(START_MS / 1000, dt.UTC) + dt.timedelta(seconds=number, milliseconds=index))
            for number in range(count) for index in range(5)]


def test_every_record_once(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, logs, data = tmp_path / "table", tmp_path / "logs", batches(40)
    write(logs, 1, data[:10])
    assert export(table, logs, kind) == 0
    assert rows(table, kind) == expected(10)
    since = expected(10)[27][3]
    assert rows(table, kind, since) == expected(10)[27:]

    # The export dies before it writes the other format, and then after that, before it notes the commit.
    for count, place in ((20, f"kraft.pipeline.lakes.add_to_{kind}"), (30, "kraft.pipeline.table.file_io")):
        write(logs, 1, data[count - 10:count])
        with monkeypatch.context() as patch:
            patch.setattr(place, Dying())
            with pytest.raises(Died):
                export(table, logs, kind)
        assert export(table, logs, kind) == 0
        assert rows(table, kind) == expected(count)
    write(logs, 1, data[30:])
    assert export(table, logs, kind, "--batch-records", "20") == 0
    assert rows(table, kind) == expected(40)


class Died(BaseException):
    """The process has died."""


class Dying:
    """Dies when it is called; as `file_io`, when it notes that a commit's files are in their places."""

    def __call__(self, *_: Any) -> None:
        raise Died

    def __getattr__(self, name: str) -> Any:
        return getattr(file_io, name)

    def write_atomic(self, path: Path, content: bytes) -> None:
        if path.name == "published":
            raise Died
        file_io.write_atomic(path, content)


def test_small_files_become_large_ones(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    table, logs = tmp_path / "table", tmp_path / "logs"
    write(logs, 1, batches(40))
    assert export(table, logs, "delta", "--batch-records", "50", "--merge-below", "1") == 0
    assert rows(table, "delta") == expected(40)
    from deltalake import DeltaTable

    assert len(DeltaTable(table).file_uris()) == 1


def test_a_table_keeps_its_format(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "logs", 1, batches(4))
    assert export(tmp_path / "table", tmp_path / "logs", "parquet") == 0
    with pytest.raises(Exception, match="lake"), Table(tmp_path / "table", {"lake": "delta"}):
        pass
    monkeypatch.setattr(lakes, "find_spec", lambda _: None)
    assert export(tmp_path / "other", tmp_path / "logs", "delta") == 1
    assert "needs the package deltalake: pip install deltalake" in capsys.readouterr().err
    assert export(tmp_path / "other", tmp_path / "logs", "iceberg", "--merge-below", "1") == 2
