"""The example of `docs/pipeline.md` runs."""

import re
import shutil
from pathlib import Path

import pytest

from kraft import Log
from tools.tree import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").mkdir()
    with Log(tmp_path / "a" / "orders-0") as log:
        for number in range(50):
            log.append_record(b"%d" % number)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    [block] = BLOCK.findall((ROOT / "docs" / "pipeline.md").read_text())
    for more in ("50 rows", "50 rows"):     # the second time there is nothing new
        exec(block, {"nodes": [tmp_path / "a", tmp_path / "b"], "table": tmp_path / "table"})
        assert capsys.readouterr().out.splitlines() == ["orders 0 50 sound", more]
