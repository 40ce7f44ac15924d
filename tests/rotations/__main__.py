"""Rotate credentials of a node under load: `python -m tests.rotations certificates --rotations 1000`.

Ends with 1 when a client with valid credentials failed, or when a revoked credential was accepted for too long.
"""

import sys
import tempfile
from pathlib import Path

import click
from rich.progress import Progress

from tests.rotations.node import RotatedNode
from tests.rotations.run import SUBJECTS, Rotations


@click.command()
@click.argument("subjects", type=click.Choice(list(SUBJECTS)), nargs=-1)
@click.option("--rotations", type=click.IntRange(1), default=1_000, show_default=True, help="Of each subject.")
def main(subjects: tuple[str, ...], rotations: int) -> None:
    """Rotate these credentials of a node; all of them by default."""
    for subject in subjects or SUBJECTS:
        click.echo(f"{subject}: {rotate(subject, rotations)}")


def rotate(subject: str, rotations: int) -> Rotations:
    """Rotate the credentials of a new node."""
    with tempfile.TemporaryDirectory(prefix="kraft-rotations-") as directory, Progress(transient=True) as progress:
        certificates = Path(directory, "certificates")
        certificates.mkdir()
        node = RotatedNode(Path(directory, "data"), certificates)
        node.start()
        try:
            node.create_topic()
            task = progress.add_task(subject, total=rotations)
            return SUBJECTS[subject](node, rotations, lambda count: progress.advance(task, count))
        finally:
            node.stop()


if __name__ == "__main__":
    sys.exit(main())
