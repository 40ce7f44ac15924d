"""`kraft brokers replicas` and `move`: the log directories of a broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.nodes import Tool, running


@pytest.fixture
def two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Tool]:
    """A node with the directories `one` and `two`."""
    with running(Path(f"{tmp_path / 'one'},{tmp_path / 'two'}")) as started:
        yield Tool(started.bootstrap, capsys)


def test_replicas_are_listed_and_moved(two: Tool, tmp_path: Path) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "two")
    two.json("topics", "create", "t", "--partitions", 2)

    def homes() -> dict[str, str]:
        return {each["partition"]: each["directory"] for each in two.json("brokers", "replicas", 1)
                if each["partition"].startswith("t/")}

    assert sorted(homes().values()) == sorted([one, other])
    assert two.json("brokers", "move", 1, other, "t") == [
        {"partition": f"t/{index}", "directory": other, "result": "done"} for index in range(2)]
    assert homes() == {"t/0": other, "t/1": other}
    assert two.run("brokers", "move", 1, one, "t/1")[1] == "1 replica: done\n"
    assert homes() == {"t/0": other, "t/1": one}
    code, out, _ = two.run("brokers", "replicas", 1)
    assert code == 0 and "moves here" not in out
    refused = "kraft: broker 1: no other broker is up that could have its replicas\n"
    assert two.run("brokers", "drain", 1) == (1, "", refused)
    assert "LOG_DIR_NOT_FOUND" in two.run("brokers", "move", 1, "/nowhere", "t")[2]
    assert "the cluster has no t/7" in two.run("brokers", "move", 1, one, "t/7")[2]
