"""`kraft tokens`: delegation tokens, with which clients log in without a password of their own (KIP-48)."""

from typing import IO, Any, Final

import click

from kraft.cli.command import kraft
from kraft.cli.moments import time_text
from kraft.cli.number_types import IntRange
from kraft.cli.options import on_cluster, print_rows, read_secret, secret_file_option
from kraft.client import Cluster
from kraft.security.principal import USER, Principal

COLUMNS: Final = ("token id", "owner", "requester", "renewers", "issued", "expires", "ends")
SECONDS: Final = IntRange(0, 1 << 40)
DEFAULT: Final = -1
"""Kafka's value for no time: a life as long as the cluster allows, an end at once."""
SECRET_FILE: Final = secret_file_option("--secret-file", "token's secret")


@kraft.group("tokens")
def tokens_group() -> None:
    """Delegation tokens: logins for a limited time, as a user that has created them.

    A client logs in by SCRAM with the token's id as user, its secret as password, and tokenauth=true. Nodes need
    delegation.token.secret.key.
    """


@tokens_group.command("create")
@click.option("--owner", metavar="USER", help="User of the token; that of this command by default.")
@click.option("--renewer", "renewers", metavar="USER", multiple=True,
              help="User that may renew it and let it expire; may be given again.")
@click.option("--life", "life_s", metavar="SECONDS", type=IntRange(1, 1 << 40),
              help="Longest life, with renewals; what the cluster allows by default.")
@on_cluster
def create_command(cluster: Cluster, owner: str | None, renewers: tuple[str, ...], life_s: int | None,
                   as_json: bool) -> None:
    """Create a token, and print its secret. No other command prints it."""
    from kraft.client.tokens import create_token

    made = create_token(cluster, owner=_user(owner) if owner else None, renewers=map(_user, renewers),
                        life_ms=_ms(life_s))
    print_rows(as_json, [made._asdict()], (*COLUMNS, "secret"), [(*_row(made), made.secret)])


@tokens_group.command("renew")
@SECRET_FILE
@click.option("--period", "period_s", metavar="SECONDS", type=SECONDS,
              help="Time from now on; what the cluster allows by default.")
@on_cluster
def renew_command(cluster: Cluster, secret_file: IO[str] | None, period_s: int | None, as_json: bool) -> None:
    """Extend the life of a token."""
    from kraft.client.tokens import renew_token

    _print_time(as_json, renew_token(cluster, read_secret(secret_file, "Secret"), _ms(period_s)))


@tokens_group.command("expire")
@SECRET_FILE
@click.option("--after", "after_s", metavar="SECONDS", type=SECONDS, help="Time from now on; at once by default.")
@on_cluster
def expire_command(cluster: Cluster, secret_file: IO[str] | None, after_s: int | None, as_json: bool) -> None:
    """End the life of a token. Open connections continue until the end of their session, at the latest until the token
    would have expired."""
    from kraft.client.tokens import expire_token

    _print_time(as_json, expire_token(cluster, read_secret(secret_file, "Secret"), _ms(after_s)))


@tokens_group.command("describe")
@click.argument("owners", metavar="USER...", nargs=-1)
@on_cluster
def describe_command(cluster: Cluster, owners: tuple[str, ...], as_json: bool) -> None:
    """Show the tokens that these users own or may renew, or all. Secrets are not shown."""
    from kraft.client.tokens import tokens_of

    found = sorted(tokens_of(cluster, map(_user, owners)))
    shown = [{name: value for name, value in each._asdict().items() if name != "secret"} for each in found]
    print_rows(as_json, shown, COLUMNS, map(_row, found))


def _user(text: str) -> Principal:
    """Return a user, given by its name or as `User:NAME`."""
    kind, colon, name = text.partition(":")
    return Principal(kind, name) if colon and kind == USER else Principal.user(text)


def _ms(seconds: int | None) -> int:
    """Return a time in milliseconds; DEFAULT where none is given."""
    return DEFAULT if seconds is None else seconds * 1000


def _row(token: Any) -> tuple[str, ...]:
    return (token.token_id, token.owner, token.requester, ", ".join(token.renewers), time_text(token.issued_ms),
            time_text(token.expires_ms), time_text(token.ends_ms))


def _print_time(as_json: bool, expires_ms: int) -> None:
    print_rows(as_json, [{"expires_ms": expires_ms}], ("expires",), [(time_text(expires_ms),)])
