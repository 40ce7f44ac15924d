"""Tree of names of a cluster's metadata, which `kraft metadata` shows and compares.

    /image /features /brokers/1 /controllers/3001 /topics/orders/0 /configs/topic/orders /quotas /producer_ids /acls
    /scram /delegation_tokens
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from kraft.cli.quorum_log import plain
from kraft.metadata.image import RESOURCE_NAMES, Endpoint, Levels, MetadataImage
from kraft.protocol.ids import id_text
from kraft.protocol.message import Struct
from kraft.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from kraft.security.acls import Operation, PatternType, PermissionType, ResourceType, name_of
from kraft_native.base.errors import InvalidArgumentError

EVERY: Final = "<default>"
Tree = dict[str, Any]


class Difference(NamedTuple):
    """One value that differs; None on the side that lacks it."""

    path: str
    before: Any
    after: Any


def tree_of(image: MetadataImage) -> Tree:
    """Return everything in the image. Numbers and lists are leaves."""
    configs: Tree = {}
    for resource, settings in image.configs.items():
        kind = RESOURCE_NAMES.get(resource.type, str(resource.type))
        configs.setdefault(kind, {})[resource.name or EVERY] = dict(settings)
    return {
        "image": {"offset": image.offset, "epoch": image.epoch, "timestamp_ms": image.timestamp_ms},
        "features": dict(image.features),
        "brokers": {str(each.broker_id): value_of(each) for each in image.brokers.values()},
        "controllers": {str(each.controller_id): value_of(each) for each in image.controllers.values()},
        "topics": {topic.name: {"id": id_text(topic.topic_id), **{
            str(index): value_of(partition) for index, partition in sorted(topic.partitions.items())}}
            for topic in sorted(image.topics.values(), key=lambda topic: topic.name)},
        "configs": configs,
        "quotas": {",".join(f"{kind}={EVERY if name is None else name}" for kind, name in entity): dict(limits)
                   for entity, limits in image.quotas.items()},
        "producer_ids": {"next": image.next_producer_id},
        "acls": {id_text(each): _acl(record) for each, record in image.acls.items()},
        "scram": {f"{mechanism}:{user}": value_of(record) for (mechanism, user), record in image.scram.items()},
        "delegation_tokens": {name: value_of(record) for name, record in image.delegation_tokens.items()},
    }


def _acl(record: AccessControlEntryRecord) -> Tree:
    return {"resource_type": name_of(ResourceType, record.resource_type), "resource_name": record.resource_name,
            "pattern_type": name_of(PatternType, record.pattern_type), "principal": record.principal,
            "host": record.host, "operation": name_of(Operation, record.operation),
            "permission_type": name_of(PermissionType, record.permission_type)}


def value_of(value: object) -> Any:
    """Convert a value to JSON: ids as Kafka writes them, endpoints as NAME://host:port."""
    if isinstance(value, Endpoint):
        return f"{value.name}://{value.host}:{value.port}"
    if isinstance(value, Levels):
        return f"{value.minimum}-{value.maximum}"
    if isinstance(value, Struct):
        return plain(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: value_of(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, UUID):
        return id_text(value)
    if isinstance(value, Mapping):
        return {str(name): value_of(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [value_of(each) for each in value]
    return value


def at(tree: Tree, path: str) -> Any:
    """Return the value at `/a/b/c`. `InvalidArgumentError` for a missing path lists the existing names."""
    found: Any = tree
    done = ""
    for name in filter(None, path.split("/")):
        if not isinstance(found, dict) or name not in found:
            names = ", ".join(list(found)[:10]) if isinstance(found, dict) and found else "nothing"
            raise InvalidArgumentError(f"{path}: there is no {name} in {done or '/'}; there is: {names}")
        found, done = found[name], f"{done}/{name}"
    return found


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value with its path."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from leaves(each, f"{path}/{name}")
    elif value != {}:
        yield path, value


def differences(before: Any, after: Any) -> list[Difference]:
    """Return the differences, in the order of paths."""
    old, new = dict(leaves(before)), dict(leaves(after))
    return [Difference(path, old.get(path), new.get(path)) for path in sorted({**old, **new})
            if (path in old, old.get(path)) != (path in new, new.get(path))]
