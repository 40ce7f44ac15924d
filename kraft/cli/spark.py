"""`kraft spark`: a shell with a Spark session, and an archive for executors."""

import code
import platform
import sys
from pathlib import Path

import click

from kraft.cli.command import kraft
from kraft.cli.options import OUTPUT_FILE
from kraft.cli.server_config import parse_assignments

BANNER = """\
Spark {version}, {master}. `spark` is the session:

    spark.read.format("kraft").option("kafka.bootstrap.servers", "127.0.0.1:9092").option("subscribe", "orders").load()
    spark.read.format("kraft").load("/var/lib/kraft/data")
"""


@kraft.group("spark")
def spark() -> None:
    """Apache Spark on topics and log directories (pip install kraft[spark])."""


@spark.command("shell")
@click.option("--master", help="Spark master [default: $MASTER, else local[*]].")
@click.option("--conf", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be given again.")
@click.option("-c", "--command", "text", help="Run this Python code, in which `spark` is the session, and end.")
def shell(master: str | None, settings: tuple[str, ...], text: str | None) -> None:
    """Start Python with a Spark session that has format("kraft")."""
    from kraft.spark import session

    found = session("kraft spark shell", master=master, quick=text is not None,
                    settings=parse_assignments(settings, "--conf"))
    try:
        console = code.InteractiveConsole({"spark": found})
        if text is not None:
            exec(compile(text, "<command>", "exec"), console.locals)  # noqa: S102 - the purpose of the option
            return
        console.interact(BANNER.format(version=found.version, master=found.sparkContext.master), exitmsg="")
    finally:
        found.stop()


@spark.command("bundle")
@click.option("-o", "--output", default="kraft-spark.zip", show_default=True,
              type=OUTPUT_FILE, help="The archive.")
def bundle(output: Path) -> None:
    """Write an archive of kraft for executors without an installation.

    They need the same kind of machine, the same Python, and the other dependencies of kraft[spark].
    """
    from kraft.spark.bundle import bundle_settings, write_bundle

    size = write_bundle(output)
    click.echo(f"{output}: {size / 1e6:.1f} MB, for Python {'.'.join(platform.python_version_tuple()[:2])} on "
               f"{sys.platform} {platform.machine()}. Start Spark with")
    for name, value in bundle_settings(output).items():
        click.echo(f"    --conf {name}={value}")
