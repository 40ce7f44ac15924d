"""`kraft acls`: the entries that allow and deny, of a cluster with an authorizer."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Final, NamedTuple

import click

from kraft.cli.command import kraft
from kraft.cli.options import Fields, on_cluster, print_json, print_rows
from kraft.client import Cluster
from kraft.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    name_of,
)
from kraft_native.base.errors import InvalidArgumentError

COLUMNS: Final = ("permission", "principal", "host", "operation", "resource", "name", "pattern")
RESOURCES: Final = {"topics": ResourceType.TOPIC, "groups": ResourceType.GROUP,
                    "transactional_ids": ResourceType.TRANSACTIONAL_ID, "tokens": ResourceType.DELEGATION_TOKEN,
                    "users": ResourceType.USER}
"""Types of resources, by the name of the option."""
PRODUCING: Final = {ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
                    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE)}
CONSUMING: Final = {ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE), ResourceType.GROUP: (Operation.READ,)}
ADDED: Final = ("literal", "prefixed")
SELECTED: Final = ("literal", "prefixed", "any", "match")

Command = Callable[..., None]


class OperationName(click.ParamType[Operation]):
    """Operation by its name, in any case: DescribeConfigs, describe-configs, DESCRIBE_CONFIGS."""

    name = "operation"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Operation:
        if isinstance(value, Operation):
            return value
        wanted = str(value).replace("-", "").replace("_", "").lower()
        for each in Operation:
            if each >= Operation.ALL and each.name.replace("_", "").lower() == wanted:
                return each
        names = ", ".join(_word(each.name) for each in Operation if each >= Operation.ALL)
        raise click.BadParameter(f"{value!r} is not one of {names}", ctx=ctx, param=param)


class Named(NamedTuple):
    """Resource that an option names; None: every resource of every type."""

    type: ResourceType
    name: str | None


class Chosen(NamedTuple):
    """The options of a command about entries."""

    allowed: tuple[str, ...]
    denied: tuple[str, ...]
    allow_hosts: tuple[str, ...]
    deny_hosts: tuple[str, ...]
    operations: tuple[Operation, ...]
    resources: tuple[Named, ...]
    pattern: PatternType
    produces: bool
    consumes: bool
    is_idempotent: bool

    def by_resource(self) -> Iterator[tuple[Named, tuple[Operation, ...]]]:
        """Yield each resource with the operations that are meant on it."""
        for each in self.resources:
            found = dict.fromkeys(self.operations)
            if self.produces:
                found |= dict.fromkeys(PRODUCING.get(each.type, ()))
            if self.consumes:
                found |= dict.fromkeys(CONSUMING.get(each.type, ()))
            if self.is_idempotent and each.type is ResourceType.CLUSTER:
                found[Operation.IDEMPOTENT_WRITE] = None
            yield each, tuple(found) or (() if self.is_convenience else (Operation.ALL,))

    @property
    def is_convenience(self) -> bool:
        return self.produces or self.consumes

    def entries(self) -> Iterator[Acl]:
        """Yield the entries that the options name."""
        for resource, operations in self.by_resource():
            assert resource.name is not None
            for principals, hosts, permission in ((self.allowed, self.allow_hosts, PermissionType.ALLOW),
                                                  (self.denied, self.deny_hosts, PermissionType.DENY)):
                for principal in principals:
                    for host in hosts or (WILDCARD,):
                        for operation in operations:
                            yield Acl(resource.type, self.pattern, resource.name, principal, host, operation,
                                      permission)

    def filters(self) -> list[AclFilter]:
        """Return the filters that the options mean: of exactly their entries where they name principals, else of all
        entries of the resources."""
        if self.allowed or self.denied:
            return [AclFilter(*each) for each in self.entries()]
        return [AclFilter(each.type, self.pattern, each.name) for each in self.resources]


def _repeated(*names: str, help_text: str, **more: Any) -> Callable[[Command], Command]:
    return click.option(*names, multiple=True, help=help_text, **more)


def entry_options(patterns: tuple[str, ...], default: str) -> Callable[[Command], Command]:
    """Add the options of entries, and pass them as `chosen`."""
    options = (
        _repeated("--allow-principal", "allowed", help_text="Principal that may, as User:alice; may be given again.",
                  metavar="KIND:NAME"),
        _repeated("--deny-principal", "denied", help_text="Principal that may not.", metavar="KIND:NAME"),
        _repeated("--allow-host", "allow_hosts", metavar="HOST",
                  help_text="Address, or network such as 10.0.0.0/8, of the allowed [default: *]."),
        _repeated("--deny-host", "deny_hosts", metavar="HOST",
                  help_text="Address or network of the denied [default: *]."),
        _repeated("--operation", "operations", type=OperationName(), metavar="OPERATION",
                  help_text="Operation [default: all]; read, write and so on."),
        _repeated("--topic", "topics", help_text="Topic; * is every one.", metavar="NAME"),
        _repeated("--group", "groups", help_text="Consumer group.", metavar="NAME"),
        click.option("--cluster", "of_cluster", is_flag=True, help="The cluster."),
        _repeated("--transactional-id", "transactional_ids", help_text="Transactional id.", metavar="NAME"),
        _repeated("--delegation-token", "tokens", help_text="Delegation token.", metavar="NAME"),
        _repeated("--user-principal", "users", help_text="User, as a resource of delegation tokens.", metavar="NAME"),
        click.option("--resource-pattern-type", "pattern", type=click.Choice(patterns, case_sensitive=False),
                     default=default, show_default=True, help="How the names select resources."),
        click.option("--producer", "produces", is_flag=True, help="What a producer to the topics needs."),
        click.option("--consumer", "consumes", is_flag=True, help="What a consumer of the topics in the groups needs."),
        click.option("--idempotent", "is_idempotent", is_flag=True,
                     help="Idempotent writes, with --producer. Permission to write a topic is enough for them, too."),
    )

    def added(command: Command) -> Command:
        @wraps(command)
        def with_chosen(*arguments: Any, **given: Any) -> None:
            command(*arguments, chosen=_chosen(given), **given)

        made: Command = with_chosen
        for option in reversed(options):
            made = option(made)
        return made

    return added


def _chosen(given: dict[str, Any]) -> Chosen:
    """Take the options of entries out of those of a command."""
    resources = [Named(kind, name) for option, kind in RESOURCES.items() for name in given.pop(option)]
    is_idempotent = given.pop("is_idempotent")
    if given.pop("of_cluster") or is_idempotent:
        resources.append(Named(ResourceType.CLUSTER, CLUSTER_NAME))
    chosen = Chosen(pattern=PatternType[given.pop("pattern").upper()], resources=tuple(resources),
                    is_idempotent=is_idempotent, **{name: given.pop(name) for name in (
                        "allowed", "denied", "allow_hosts", "deny_hosts", "operations", "produces", "consumes")})
    _check(chosen)
    return chosen


def _check(chosen: Chosen) -> None:
    if chosen.is_idempotent and not chosen.produces:
        raise click.UsageError("--idempotent is for --producer")
    if chosen.is_convenience and (chosen.operations or chosen.denied or chosen.deny_hosts):
        raise click.UsageError("--producer and --consumer name the operations, and allow them: leave out --operation, "
                               "--deny-principal and --deny-host")
    types = [each.type for each in chosen.resources]
    if chosen.is_convenience and ResourceType.TOPIC not in types:
        raise click.UsageError("--producer and --consumer need a --topic")
    if chosen.consumes and ResourceType.GROUP not in types:
        raise click.UsageError("--consumer needs a --group")
    for hosts, principals, option in ((chosen.allow_hosts, chosen.allowed, "--allow"),
                                      (chosen.deny_hosts, chosen.denied, "--deny")):
        if hosts and not principals:
            raise click.UsageError(f"{option}-host needs {option}-principal")
    _check_operations(chosen)


def _check_operations(chosen: Chosen) -> None:
    from kraft.security.authorizer import OPERATIONS_OF

    for resource, operations in chosen.by_resource():
        for operation in operations:
            if operation is not Operation.ALL and not OPERATIONS_OF[resource.type] >> operation & 1:
                known = [_word(each.name) for each in Operation if OPERATIONS_OF[resource.type] >> each & 1]
                raise click.UsageError(f"a {_word(resource.type.name)} has no operation {_word(operation.name)}; it "
                                       f"has {', '.join(known)}")


@kraft.group("acls")
def acls_group() -> None:
    """Entries (ACLs) that say what clients may do, in a cluster with an authorizer."""


@acls_group.command("add")
@entry_options(ADDED, "literal")
@on_cluster
def add_command(cluster: Cluster, chosen: Chosen, as_json: bool) -> None:
    """Add entries. Those that exist stay as they are.

    \b
    kraft acls add --allow-principal User:alice --producer --topic orders
    kraft acls add --allow-principal User:bob --consumer --topic orders --group billing
    kraft acls add --deny-principal User:eve --deny-host 10.0.0.0/8 --topic '*'
    """
    from kraft.client.acls import create_acls

    if not chosen.resources:
        raise click.UsageError("name a resource: --topic, --group, --cluster, --transactional-id, --delegation-token "
                               "or --user-principal")
    entries = list(dict.fromkeys(chosen.entries()))
    if not entries:
        raise click.UsageError("name a principal: --allow-principal or --deny-principal")
    create_acls(cluster, entries)
    _print(entries, as_json)


@acls_group.command("list")
@entry_options(SELECTED, "any")
@click.option("--principal", "principals", multiple=True, metavar="KIND:NAME", help="Only entries of this principal.")
@on_cluster
def list_command(cluster: Cluster, chosen: Chosen, principals: tuple[str, ...], as_json: bool) -> None:
    """List entries: all, or those of some resources or principals.

    With --resource-pattern-type match the entries that apply to a resource of that name: literal, prefixed and *.
    """
    from kraft.client.acls import list_acls

    filters = _of_principals(chosen.filters(), principals) or [AclFilter()]
    found = dict.fromkeys(acl for each in filters for acl in list_acls(cluster, each))
    _print(sorted(found), as_json)


@acls_group.command("remove")
@entry_options(SELECTED, "literal")
@click.option("--principal", "principals", multiple=True, metavar="KIND:NAME",
              help="All entries of this principal, on the named resources or on all.")
@on_cluster
def remove_command(cluster: Cluster, chosen: Chosen, principals: tuple[str, ...], as_json: bool) -> None:
    """Remove entries: exactly those that the options name, or all of a resource or a principal."""
    from kraft.client.acls import delete_acls

    filters = chosen.filters()
    if not filters and not principals:
        raise click.UsageError("name a resource, such as --topic orders, or a --principal")
    found = delete_acls(cluster, _of_principals(filters, principals))
    _print(found, as_json)
    if not found:
        click.echo("no such entry", err=True)
        raise click.exceptions.Exit(1)


@acls_group.command("test")
@click.argument("principal", metavar="PRINCIPAL")
@click.argument("operation", type=OperationName())
@click.argument("resource", metavar="TYPE:NAME")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address from which the client connects.")
@on_cluster
def test_command(cluster: Cluster, principal: str, operation: Operation, resource: str, host: str, as_json: bool
                 ) -> None:
    """Say whether a client may do something, and by which entry. Exit code 1 when it may not.

    \b
    kraft acls test User:alice write topic:orders
    kraft acls test User:alice create cluster
    """
    from kraft.client.acls import list_acls
    from kraft.security.explanation import explain
    from kraft.security.principal import Principal

    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        raise click.UsageError(f"{principal!r} is not KIND:NAME, such as User:alice")
    wanted = _resource(resource)
    settings = _settings(cluster)
    acls = list_acls(cluster, AclFilter(wanted.type, PatternType.MATCH, wanted.name))
    found = explain(settings, acls, Principal(kind, name), host, operation, wanted.type, wanted.name or "")
    if as_json:
        print_json([{"allowed": found.is_allowed, "reason": found.reason,
                     "acl": None if found.acl is None else _fields(found.acl)}])
    else:
        click.echo(f"{'allowed' if found.is_allowed else 'denied'}: {found.reason}")
    if not found.is_allowed:
        raise click.exceptions.Exit(1)


def _resource(text: str) -> Named:
    kind, _, name = text.partition(":")
    wanted = kind.replace("-", "_").upper()
    types = [each for each in ResourceType if each >= ResourceType.TOPIC]
    found = next((each for each in types if each.name == wanted), None)
    if found is ResourceType.CLUSTER:
        return Named(found, name or CLUSTER_NAME)
    if found is None or not name:
        raise click.UsageError(f"{text!r} is not TYPE:NAME with a type of "
                               f"{', '.join(_word(each.name) for each in types)}")
    return Named(found, name)


def _of_principals(filters: list[AclFilter], principals: tuple[str, ...]) -> list[AclFilter]:
    """Restrict filters to principals, where some are given. No filter means all entries of those."""
    if not principals:
        return filters
    return [each._replace(principal=principal) for each in filters or [AclFilter()] for principal in principals]


def _settings(cluster: Cluster) -> Any:
    """Return the authorizer's settings of a node. Nodes that do not report them have none as far as is known."""
    from kraft.client.configs import setting
    from kraft.config.authorizer_settings import ALLOW_EVERYONE, SUPER_USERS, AuthorizerSettings, parse_super_users

    node = str(cluster.nodes()[0].node_id)
    try:
        super_users = parse_super_users(setting(cluster, "broker", node, SUPER_USERS) or "")
        everyone = setting(cluster, "broker", node, ALLOW_EVERYONE) == "true"
    except InvalidArgumentError:
        super_users, everyone = frozenset(), False
    return AuthorizerSettings(super_users, everyone)


def _fields(acl: Acl) -> Fields:
    return dict(zip(COLUMNS, _row(acl), strict=True))


def _row(acl: Acl) -> tuple[str, ...]:
    return (_word(name_of(PermissionType, acl.permission_type)), acl.principal, acl.host,
            _word(name_of(Operation, acl.operation)), _word(name_of(ResourceType, acl.resource_type)),
            acl.resource_name, _word(name_of(PatternType, acl.pattern_type)))


def _word(name: str) -> str:
    """Return the name of a code as the options and the output have it."""
    return name.lower().replace("_", "-")


def _print(acls: list[Acl], as_json: bool) -> None:
    print_rows(as_json, map(_fields, acls), COLUMNS, map(_row, acls))
    if not acls and not as_json:
        click.echo("0 entries", err=True)
