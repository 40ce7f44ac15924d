"""Options that several programs have."""

from pathlib import Path
from typing import Final

import click

from bench.machine import OUT

QUICK: Final = click.option("--quick", is_flag=True, help="One short turn of each row: to see that everything runs.")
OURS: Final = click.option("--ours", is_flag=True, help="Only our nodes: no ratios.")
ONLY: Final = click.option("--only", multiple=True,
                           help="Only rows whose name contains this text; may be given again.")
BESIDE: Final = click.option(
    "--beside", type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="A built checkout of another version of this project, which is the peer in place of Kafka.")
DIRECTORY: Final = click.option("--directory", type=click.Path(file_okay=False, path_type=Path), default=OUT,
                                help="Where all nodes keep their data.")
