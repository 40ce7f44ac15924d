"""Each compiled module of the engine that Python can call has a benchmark of its own."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
ROW: Final = re.compile(r"^\| ([1-4]) \| `(\w+)` \| [^|]* \| ([^|]+) \|$", re.MULTILINE)
MEASURED_WITH: Final = {
    "append": "log", "column_encoder": "columns", "fetch_chain": "answers", "producer_snapshots": "producers",
    "scan": "recovery",
}
NOTHING_TO_TIME: Final = {
    "build_info": "constants",
    "errors": "exceptions",
    "faults": "only tests use it",
    "config": "read when a log is opened",
    "buffer": "what others' figures consist of",
    "batch_check": "the work of `validate`, elsewhere",
    "logcheckpoint": "waits for the device",
}


def test_every_module_has_a_benchmark() -> None:
    table = (ROOT / "docs" / "internals" / "engine-modules.md").read_text()
    modules = [module for _, module, public in ROW.findall(table) if public.strip()]
    assert len(modules) > 30
    missing = [module for module in modules if module not in NOTHING_TO_TIME
               and not (ROOT / "bench" / "micro" / f"bench_{MEASURED_WITH.get(module, module)}.py").exists()]
    assert missing == []
    assert set(NOTHING_TO_TIME) | set(MEASURED_WITH) <= set(modules)
