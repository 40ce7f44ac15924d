"""`kraft configs`: settings of topics, brokers and groups, shown and changed while the cluster runs."""

import re
from collections.abc import Sequence
from typing import Any, Final

import click

from kraft.cli.command import kraft
from kraft.cli.options import Fields, cluster_options, on_cluster, print_json, print_rows
from kraft.client import Cluster, RefusedError
from kraft.client.configs import (
    KINDS,
    SOURCE_DEFAULT,
    SOURCES,
    Change,
    Operation,
    alter_configs,
    describe_configs,
)
from kraft.client.groups import describe_group
from kraft.config.absent import KEPT
from kraft.config.effective import UNKNOWN_TEXT
from kraft.config.errors import InvalidConfigError
from kraft.protocol.error_codes import ErrorCode

ALL: Final = "all"
KIND: Final = click.argument("kind", type=click.Choice(list(KINDS)))
NAME: Final = click.argument("name")
NAMES: Final = click.argument("names", metavar="NAME...", nargs=-1, required=True)
VALIDATE_ONLY: Final = click.option("--validate-only", is_flag=True,
                                    help="Only check whether the request would succeed.")
_CHANGE: Final = re.compile(r"(?P<name>[^=+\-\s][^=\s]*?)(?P<operation>\+=|-=|=)(?P<value>.*)", re.DOTALL)
_OPERATIONS: Final = {"=": Operation.SET, "+=": Operation.APPEND, "-=": Operation.SUBTRACT}


@kraft.group("configs")
def configs_group() -> None:
    """Show and change settings of topics, brokers and groups.

    KIND is topic, broker, broker-logger, group or client-metrics. The broker named "all" means the setting of all
    brokers. Levels of a broker's loggers last until it stops.
    """


@configs_group.command("describe")
@KIND
@NAMES
@click.option("--all", "everything", is_flag=True, help="Also settings that have their default.")
@click.option("--documentation", is_flag=True, help="With --json: what each setting does.")
@on_cluster
def describe_command(cluster: Cluster, kind: str, names: tuple[str, ...], everything: bool, documentation: bool,
                     as_json: bool) -> None:
    """Show the settings that are not defaults, with their sources."""
    found = describe_configs(cluster, kind, [_resource(kind, name) for name in dict.fromkeys(names)],
                             documentation=documentation)
    for name, settings in found.items():
        if all(each.config_source == SOURCE_DEFAULT for each in settings):
            _need_existing(cluster, kind, name)
    rows = [_fields(kind, name, each, documentation=documentation) for name, settings in found.items()
            for each in settings if everything or each.config_source != SOURCE_DEFAULT]
    print_rows(as_json, rows, (kind, "setting", "value", "from", "changeable"),
               [(row["name"], row["setting"], "[hidden]" if row["sensitive"] else row["value"], row["source"],
                 not row["read_only"]) for row in rows])


@configs_group.command("set")
@KIND
@NAME
@click.argument("assignments", metavar="KEY=VALUE...", nargs=-1, required=True)
@VALIDATE_ONLY
@cluster_options
def set_command(kind: str, name: str, assignments: tuple[str, ...], validate_only: bool, bootstrap: str,
                timeout: float, as_json: bool) -> None:
    """Change settings, all of them or none. KEY+=VALUE adds to a list, KEY-=VALUE removes from it."""
    _alter(kind, name, [_change(text) for text in assignments], validate_only, bootstrap, timeout, as_json)


@configs_group.command("delete")
@KIND
@NAME
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@VALIDATE_ONLY
@cluster_options
def delete_command(kind: str, name: str, keys: tuple[str, ...], validate_only: bool, bootstrap: str, timeout: float,
                   as_json: bool) -> None:
    """Remove settings of a resource; the inherited values apply again."""
    _alter(kind, name, [Change(key, Operation.DELETE, None) for key in dict.fromkeys(keys)], validate_only, bootstrap,
           timeout, as_json)


def _need_existing(cluster: Cluster, kind: str, name: str) -> None:
    """Raise `RefusedError` for a missing group or subscription to client metrics: the cluster describes the defaults of
    any name."""
    if kind == "client-metrics":
        raise RefusedError(f"client-metrics {name}", ErrorCode.RESOURCE_NOT_FOUND, "there is no such subscription")
    if kind == "group":
        describe_group(cluster, name)


def _alter(kind: str, name: str, changes: list[Change], validate_only: bool, bootstrap: str, timeout: float,
           as_json: bool) -> None:
    resource = _resource(kind, name)
    with Cluster(bootstrap, timeout=timeout) as cluster:
        alter_configs(cluster, kind, resource, changes, validate_only=validate_only)
        warnings = without_effect(cluster, kind, resource, [each.name for each in changes if each.value is not None])
    done = "would be changed" if validate_only else "changed"
    if as_json:
        print_json([{"kind": kind, "name": name, "setting": change.name, "operation": change.operation.name.lower(),
                     "value": change.value, "result": done,
                     **({"warning": warnings[change.name]} if change.name in warnings else {})} for change in changes])
    else:
        for text in warnings.values():
            click.echo(f"warning: {text}", err=True)
        click.echo(f"{kind} {name}: {done}: {', '.join(change.name for change in changes)}")


def without_effect(cluster: Cluster, kind: str, resource: str, names: Sequence[str]) -> dict[str, str]:
    """Return those of the changed settings that have no effect in this cluster, with the reason that a node gives."""
    if not names or kind == "broker-logger":
        return {}
    found = {each.name: each.documentation or "" for each in
             describe_configs(cluster, kind, [resource], documentation=True)[resource]}
    return {name: f"{name} is accepted and has no effect. {found[name]}" for name in names
            if KEPT in found.get(name, "") or UNKNOWN_TEXT in found.get(name, "")}


def _change(text: str) -> Change:
    found = _CHANGE.fullmatch(text)
    if found is None:
        raise InvalidConfigError(f"{text!r} is not KEY=VALUE, KEY+=VALUE or KEY-=VALUE")
    return Change(found["name"], _OPERATIONS[found["operation"]], found["value"])


def _resource(kind: str, name: str) -> str:
    return "" if kind == "broker" and name == ALL else name


def _fields(kind: str, name: str, found: Any, *, documentation: bool) -> Fields:
    row: Fields = {"kind": kind, "name": name or ALL, "setting": found.name, "value": found.value,
                   "source": SOURCES.get(found.config_source, str(found.config_source)),
                   "read_only": found.read_only, "sensitive": found.is_sensitive}
    if documentation:
        row["documentation"] = found.documentation
    return row
