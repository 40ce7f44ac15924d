"""The suite's own runner, `kafka_suite/run.py` of the shared directory: its classes, and how it is started."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tests.golden import REPOSITORY
from tests.kafka_suite.results import MISSING, named_cause

MODULES: Final = ("clients-it", "tools", "core", "server")
PROGRAMS: Final = ("java", "javac", "mvn")


class Suite:
    """Kafka's test classes and the program that runs them in JVMs of their own."""

    def __init__(self, home: Path, work: Path) -> None:
        """`home` has `run.py`, `control/` and `public.txt`; jars and data directories are kept below `work`."""
        self.home = home
        self.work = work

    @staticmethod
    def missing() -> str | None:
        """Name what this machine lacks to run the suite; None when it has everything."""
        for program in PROGRAMS:
            if shutil.which(program) is None:
                return f"{program} is not installed"
        shared = os.environ.get("KRAFT_SHARED")
        home = Suite.default_home()
        return None if (home / "run.py").exists() else f"{home} has no run.py (KRAFT_SHARED={shared!r})"

    @staticmethod
    def default_home() -> Path:
        shared = os.environ.get("KRAFT_SHARED")
        return (Path(shared) if shared else REPOSITORY.parent / "shared") / "kafka_suite"

    @cached_property
    def _program(self) -> ModuleType:
        os.environ["KSUITE_WORK"] = str(self.work)
        spec = importlib.util.spec_from_file_location("kafka_suite_run", self.home / "run.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            spec.loader.exec_module(module)
        finally:
            sys.dont_write_bytecode = written
        return module

    @cached_property
    def _marks(self) -> Any:
        return self._program.load_marks()

    def control(self) -> dict[str, Any]:
        """Results of Kafka itself: class name -> module and result of each method."""
        classes: dict[str, Any] = {}
        for path in sorted((self.home / "control").glob("*.json")):
            classes |= json.loads(path.read_text())["classes"]
        return classes

    def heading(self, name: str) -> list[str]:
        """Names of the classes under one heading of `public.txt`. Raises KeyError when it has no such heading."""
        sections: dict[str, list[str]] = {}
        for line in (self.home / "public.txt").read_text().splitlines():
            if line.startswith("["):
                sections[line.strip("[]")] = []
            elif line.strip() and not line.startswith("#"):
                sections[list(sections)[-1]].append(line.strip())
        return sections[name]

    def judge(self, class_name: str, result: Mapping[str, Any]) -> tuple[str, str]:
        """Status of one method and, when it did not pass, the cause: judged by hand in `judged.json`, else guessed."""
        status = result["status"]
        if status == "pass":
            return status, ""
        by_hand = self._program.judged(self._marks, class_name, result["name"])
        if by_hand and by_hand[0] == "not-applicable":
            return "not-applicable", by_hand[1]
        if status in ("not-applicable", "skipped") and not (by_hand and by_hand[0].startswith(MISSING)):
            return "not-applicable", str(result.get("reason"))
        return status, by_hand[0] if by_hand else named_cause(result) or self._program.cause(class_name, result)

    def run(self, output: Path, *, modules: list[str], classes: list[str], tests: str | None, protocols: str,
            class_seconds: int, kraft: Path) -> None:
        """Run the classes (all for an empty list) on nodes started by the command `kraft`; add the results to `output`.
        With `protocols` "classic", tests that go through the group protocols in turn leave out KIP-848. A class that
        takes longer than `class_seconds` is ended.

        Raises CalledProcessError when the suite's runner fails, as it does when Maven cannot fetch Kafka's jars.
        """
        pattern = ["--classes", "^(" + "|".join(map(re.escape, classes)) + ")$"] if classes else []
        for module in modules:
            command = [sys.executable, str(self.home / "run.py"), "--on", "kraft", "--module", module, "--jobs", "1",
                       "--protocols", protocols, "--class-limit", str(class_seconds), "--out", str(output), *pattern,
                       *(["--tests", tests] if tests else [])]
            subprocess.run(command, check=True, env=os.environ | {
                "KSUITE_WORK": str(self.work), "KSUITE_KRAFT": str(kraft), "PYTHONDONTWRITEBYTECODE": "1"})
