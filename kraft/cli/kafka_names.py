"""Kafka's own spellings, where ours differ: names as `--topic` and `--group`, and where to begin or to reset to."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import click

from kraft.cli.names import complete_group, complete_topic
from kraft.cli.number_types import IntRange

BEGINNING: Final = "beginning"

Command = Callable[..., None]
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def topics_argument(command: Command) -> Command:
    """Add `TOPIC...`, at least one; `--topic TOPIC` names one, too."""
    return _many("topics", "topic", complete_topic, command)


def topic_argument(command: Command) -> Command:
    """Add `TOPIC`, which `--topic` names, too."""
    return _one("topic", complete_topic, command)


def groups_argument(command: Command) -> Command:
    """Add `GROUP...`, at least one, as `names`; `--group GROUP` names one, too."""
    return _many("names", "group", complete_group, command)


def group_argument(command: Command) -> Command:
    """Add `GROUP`, which `--group` names, too."""
    return _one("group", complete_group, command)


def _many(name: str, kind: str, complete: Complete, command: Command) -> Command:
    @wraps(command)
    def merged(*arguments: Any, **options: Any) -> None:
        given = (*options[name], *options.pop(f"named_{kind}"))
        if not given:
            raise click.MissingParameter(param_hint=f"'{kind.upper()}...'", param_type="argument")
        command(*arguments, **{**options, name: given})

    option = click.option(f"--{kind}", f"named_{kind}", multiple=True, shell_complete=complete,
                          help=f"The same as {kind.upper()}, as in Kafka's tools.")
    return click.argument(name, metavar=f"{kind.upper()}...", nargs=-1, shell_complete=complete)(option(merged))


def _one(kind: str, complete: Complete, command: Command) -> Command:
    @wraps(command)
    def merged(*arguments: Any, **options: Any) -> None:
        named = options.pop(f"named_{kind}")
        if (options[kind] is None) == (named is None):
            raise click.MissingParameter(param_hint=f"'{kind.upper()}'", param_type="argument") if named is None else \
                click.UsageError(f"{kind.upper()} and --{kind} both name the {kind}")
        command(*arguments, **{**options, kind: options[kind] or named})

    option = click.option(f"--{kind}", f"named_{kind}", shell_complete=complete,
                          help=f"The same as {kind.upper()}, as in Kafka's tools.")
    return click.argument(kind, metavar=kind.upper(), required=False, shell_complete=complete)(option(merged))


def reset_target(command: Command) -> Command:
    """Add `--to`, and Kafka's six options for it; exactly one of them is given."""
    @wraps(command)
    def merged(*arguments: Any, **options: Any) -> None:
        spelled = {"to": options.pop("to"), "to_offset": options.pop("to_offset"),
                   "to_datetime": options.pop("to_datetime"),
                   "shift_by": None if (by := options.pop("shift_by")) is None else f"{by:+d}",
                   "to_earliest": "earliest" if options.pop("to_earliest") else None,
                   "to_latest": "latest" if options.pop("to_latest") else None}
        given = [str(value) for value in spelled.values() if value is not None]
        if len(given) != 1:
            raise click.UsageError("one of --to, --to-offset, --to-datetime, --shift-by, --to-earliest and --to-latest "
                                   "says where")
        command(*arguments, **options, to=given[0])

    for option in (
        click.option("--to-latest", is_flag=True, help="The same as --to latest, as in Kafka's tools."),
        click.option("--to-earliest", is_flag=True, help="The same as --to earliest, as in Kafka's tools."),
        click.option("--shift-by", type=IntRange(-(1 << 62), 1 << 62), metavar="N",
                     help="The same as --to +N or --to -N, as in Kafka's tools."),
        click.option("--to-datetime", metavar="TIME", help="The same as --to TIME, as in Kafka's tools."),
        click.option("--to-offset", type=IntRange(0), metavar="N", help="The same as --to N, as in Kafka's tools."),
        click.option("--to", metavar="WHERE",
                     help="earliest, latest, an offset, +N or -N from what is committed, or a time such as "
                          "2026-01-31T09:00:00Z."),
    ):
        merged = option(merged)
    return merged


def start_option(command: Command) -> Command:
    """Add `--from` as `start`, which is `beginning` unless given, and Kafka's `--offset` and `--from-beginning`."""
    @wraps(command)
    def merged(*arguments: Any, **options: Any) -> None:
        if options.pop("from_beginning"):
            if options["start"] not in (None, BEGINNING):
                raise click.UsageError("--from-beginning and --from both say where to begin")
            options["start"] = BEGINNING
        command(*arguments, **{**options, "start": options["start"] or BEGINNING})

    for option in (
        click.option("--from-beginning", is_flag=True, help="The same as --from beginning, as in Kafka's tools."),
        click.option("--from", "--offset", "start", metavar="WHERE",
                     help="beginning, end, an offset, or a time such as 2026-01-31T09:00:00Z [default: beginning]. "
                          "With --group beginning or end: where to begin when the group has committed nothing."),
    ):
        merged = option(merged)
    return merged
