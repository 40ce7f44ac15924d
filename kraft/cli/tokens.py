"""`kraft tokens`: delegation tokens, with which clients log in without a password of their own (KIP-48)."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import IO, Any, Final

import click

from kraft.cli.command import kraft
from kraft.cli.number_types import IntRange
from kraft.cli.options import on_cluster, print_rows
from kraft.client import Cluster
from kraft.security.principal import USER, Principal

COLUMNS: Final = ("token id", "owner", "requester", "renewers", "issued", "expires", "ends")
SECONDS: Final = IntRange(0, 1 << 40)
DEFAULT: Final = -1
Command = Callable[..., None]


@kraft.group("tokens")
def tokens_group() -> None:
    """Delegation tokens: logins for a limited time, as a user that has created them.

    A client logs in by SCRAM with the token's id as user, its secret as password, and tokenauth=true. Nodes need
    delegation.token.secret.key.
    """


def secret_option(command: Command) -> Command:
    return click.option("--secret-file", type=click.File("r", encoding="utf-8"),
                        help="File whose first line is the token's secret; - is standard input. Without it the command "
                        "prompts.")(command)


@tokens_group.command("create")
@click.option("--owner", metavar="USER", help="User of the token; that of this command by default.")
@click.option("--renewer", "renewers", metavar="USER", multiple=True,
              help="User that may renew it and let it expire; may be given again.")
@click.option("--life", "life_s", metavar="SECONDS", type=IntRange(1, 1 << 40),
              help="Longest life, with renewals; what the cluster allows by default.")
@on_cluster
def create_command(cluster: Cluster, owner: str | None, renewers: tuple[str, ...], life_s: int | None,
                   as_json: bool) -> None:
    """Create a token, and print its secret: this is the place to keep it from."""
    from kraft.client.tokens import create_token

    made = create_token(cluster, owner=_user(owner) if owner else None, renewers=map(_user, renewers),
                        life_ms=DEFAULT if life_s is None else life_s * 1000)
    row = (*_row(made), made.secret)
    print_rows(as_json, [made._asdict()], (*COLUMNS, "secret"), [row])


@tokens_group.command("renew")
@secret_option
@click.option("--period", "period_s", metavar="SECONDS", type=SECONDS,
              help="Time from now on; what the cluster allows by default.")
@on_cluster
def renew_command(cluster: Cluster, secret_file: IO[str] | None, period_s: int | None, as_json: bool) -> None:
    """Extend the life of a token."""
    from kraft.client.tokens import renew_token

    _print_time(as_json, renew_token(cluster, _secret(secret_file), DEFAULT if period_s is None else period_s * 1000))


@tokens_group.command("expire")
@secret_option
@click.option("--after", "after_s", metavar="SECONDS", type=SECONDS, help="Time from now on; at once by default.")
@on_cluster
def expire_command(cluster: Cluster, secret_file: IO[str] | None, after_s: int | None, as_json: bool) -> None:
    """End the life of a token: open connections continue until their session ends, which is not after the token's end.
    """
    from kraft.client.tokens import expire_token

    _print_time(as_json, expire_token(cluster, _secret(secret_file), DEFAULT if after_s is None else after_s * 1000))


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


def _secret(file: IO[str] | None) -> str:
    if file is None:
        return str(click.prompt("Secret", hide_input=True, err=True))
    return file.readline().strip()


def _row(token: Any) -> tuple[str, ...]:
    return (token.token_id, token.owner, token.requester, ", ".join(token.renewers), _time(token.issued_ms),
            _time(token.expires_ms), _time(token.ends_ms))


def _print_time(as_json: bool, expires_ms: int) -> None:
    print_rows(as_json, [{"expires_ms": expires_ms}], ("expires",), [(_time(expires_ms),)])


def _time(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return str(time_ms)
