"""The example of `docs/pipeline.md` runs."""

import re
import shutil
from pathlib import Path

import pytest

from kraft import Log
from tools.tree import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "node1").mkdir()
    with Log(tmp_path / "node1" / "orders-0") as log:
        for number in range(50):
            log.append_record(b"%d" % number)
    for replica in ("node2", "node3"):
        shutil.copytree(tmp_path / "node1", tmp_path / replica)
    monkeypatch.chdir(tmp_path)
    [block] = BLOCK.findall((ROOT / "docs" / "pipeline.md").read_text())
    for more in ("50 rows", "50 rows"):     # the second time there is nothing new
        exec(block.replace("/srv/", f"{tmp_path}/"), {})
        assert capsys.readouterr().out.splitlines() == ["orders 0 50 sound", more]
