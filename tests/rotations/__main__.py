"""Rotate credentials of a node under load: `python -m tests.rotations certificates --rotations 1000`.

Ends with 1 when a client with valid credentials failed, or when a revoked credential was accepted for too long.
"""

import sys
from functools import partial

import click
from rich.progress import Progress

from tests.rotations.run import SUBJECTS, rotate


@click.command()
@click.argument("subjects", type=click.Choice(list(SUBJECTS)), nargs=-1)
@click.option("--rotations", type=click.IntRange(1), default=1_000, show_default=True, help="Of each subject.")
def main(subjects: tuple[str, ...], rotations: int) -> None:
    """Rotate these credentials of a node; all of them by default."""
    for subject in subjects or SUBJECTS:
        with Progress(transient=True) as progress:
            task = progress.add_task(subject, total=rotations)
            found = rotate(subject, rotations, partial(progress.advance, task))
        click.echo(f"{subject}: {found}")


if __name__ == "__main__":
    sys.exit(main())
