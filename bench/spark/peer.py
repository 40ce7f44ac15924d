"""Requirements of Spark's own connector: PySpark of its jars' version in an environment of its own, and the jars, by
Maven. They are installed once for each checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

POM: Final = Path(__file__).with_name("pom.xml")
DIRECTORY: Final = POM.parents[2] / "build" / "spark-connector"
# The newest with a complete set of the connector's jars.
PYSPARK: Final = "pyspark==4.0.0"


class Connector(NamedTuple):
    """A Python that has PySpark, and the jars, separated by commas."""

    python: str
    jars: str


def missing() -> str | None:
    """Return the reason why it is unavailable here; None if it is available."""
    absent = [name for name in ("java", "mvn") if shutil.which(name) is None]
    return f"{', '.join(absent)}: not installed" if absent else None


def connector(directory: Path = DIRECTORY) -> Connector:
    """Install it unless it exists. Raises `CalledProcessError` when Maven or pip fails."""
    python, jars = directory / "environment" / "bin" / "python", directory / "jars"
    if not jars.exists():
        subprocess.run([sys.executable, "-m", "venv", directory / "environment"], check=True)
        subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", PYSPARK], check=True)
        subprocess.run(["mvn", "-q", "-B", "-f", POM, "dependency:build-classpath", f"-Dmdep.outputFile={jars}",
                        "-Dmdep.pathSeparator=,"], check=True)
    return Connector(str(python), jars.read_text())
