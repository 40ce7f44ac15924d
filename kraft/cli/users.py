"""`kraft users`: users that log in by SCRAM."""

from typing import IO, Final

import click

from kraft.cli.command import kraft
from kraft.cli.number_types import IntRange
from kraft.cli.options import on_cluster, print_rows, read_secret, secret_file_option
from kraft.client import Cluster
from kraft.security.sasl.scram import HASHES, ITERATIONS_MIN

ITERATIONS_MAX: Final = 16_384
MECHANISM_DEFAULT: Final = ("SCRAM-SHA-256",)
COLUMNS: Final = ("user", "mechanism", "iterations")
MECHANISMS: Final = click.Choice(sorted(HASHES), case_sensitive=False)


@kraft.group("users")
def users_group() -> None:
    """Users that log in by SCRAM, and their passwords.

    Users of PLAIN are in the settings of each listener. The first user of a cluster comes from `kraft storage format
    --add-scram`.
    """


@users_group.command("list")
@on_cluster
def list_command(cluster: Cluster, as_json: bool) -> None:
    """List every user with its mechanisms."""
    _print(cluster, (), as_json)


@users_group.command("describe")
@click.argument("names", metavar="USER...", nargs=-1, required=True)
@on_cluster
def describe_command(cluster: Cluster, names: tuple[str, ...], as_json: bool) -> None:
    """Show the mechanisms of these users."""
    _print(cluster, names, as_json)


@users_group.command("add")
@click.argument("name", metavar="USER")
@click.option("--mechanism", "mechanisms", type=MECHANISMS, multiple=True,
              help="SCRAM-SHA-256 [default], SCRAM-SHA-512; may be given again.")
@click.option("--iterations", type=IntRange(ITERATIONS_MIN, ITERATIONS_MAX), default=ITERATIONS_MIN,
              show_default=True, help="Hashes that each guess of the password costs.")
@secret_file_option("--password-file", "password")
@on_cluster
def add_command(cluster: Cluster, name: str, mechanisms: tuple[str, ...], iterations: int,
                password_file: IO[str] | None, as_json: bool) -> None:
    """Add a user, or set another password.

    Open connections of the user continue; a listener with connections.max.reauth.ms ends their sessions.
    """
    from kraft.client.users import set_password

    password = read_secret(password_file, "Password", is_new=True)
    if not password:
        raise click.UsageError("the password is empty")
    chosen = sorted(dict.fromkeys(mechanisms or MECHANISM_DEFAULT))
    set_password(cluster, name, password, chosen, iterations)
    # Not what a broker answers: it may learn of the change a moment later.
    rows = [(name, each, iterations) for each in chosen]
    print_rows(as_json, [dict(zip(COLUMNS, row, strict=True)) for row in rows], COLUMNS, rows)


@users_group.command("remove")
@click.argument("name", metavar="USER")
@click.option("--mechanism", "mechanisms", type=MECHANISMS, multiple=True, help="Only this one; may be given again.")
@on_cluster
def remove_command(cluster: Cluster, name: str, mechanisms: tuple[str, ...], as_json: bool) -> None:
    """Remove a user's credentials: all of them, or those of the given mechanisms."""
    from kraft.client.users import credentials_of, remove_credentials

    removed = [each for each in credentials_of(cluster, (name,)) if not mechanisms or each.mechanism in mechanisms]
    remove_credentials(cluster, name, mechanisms or [each.mechanism for each in removed])
    print_rows(as_json, [each._asdict() for each in removed], COLUMNS, removed)


def _print(cluster: Cluster, names: tuple[str, ...], as_json: bool) -> None:
    from kraft.client.users import credentials_of

    found = sorted(credentials_of(cluster, names))
    print_rows(as_json, [each._asdict() for each in found], COLUMNS, found)
