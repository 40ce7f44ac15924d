"""Things that a request names, for the audit. Passwords, keys, tokens and values of settings are never among them.

`requested` knows the requests that change the cluster or that a client sends to administer it, and those of data.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple
from uuid import UUID

from kraft.metadata.image import BROKER_LOGGER_RESOURCE, RESOURCE_NAMES, ZERO_ID
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.ids import id_text
from kraft.protocol.message import Message
from kraft.security.acls import ResourceType

RESOURCES_MAX: Final = 32
"""Things of one request that an event names."""
DETAILS_MAX: Final = 8
"""Settings of one thing that an event names."""
TEXT_MAX: Final = 256
"""Characters of a name."""
CONFIG_KINDS: Final = {**RESOURCE_NAMES, BROKER_LOGGER_RESOURCE: "logger"}
"""Words for `ConfigResource.Type`."""
ACL_KINDS: Final[dict[int, str]] = {each: each.name.lower().replace("_", "-") for each in ResourceType
                                    if each is not ResourceType.UNKNOWN}
"""Words for `ResourceType` of ACLs."""

FindTopic = Callable[[UUID], str | None]


class Named(NamedTuple):
    """One thing. `details` are the names of what is changed of it: settings, partitions, the user of an ACL."""

    kind: str
    name: str
    details: tuple[str, ...] = ()


class Requested(NamedTuple):
    """Bounded description of a request. `is_cut`: it names more things. `is_dry_run`: it only checks a change."""

    api_key: int
    version: int
    resources: tuple[Named, ...] = ()
    is_cut: bool = False
    is_dry_run: bool = False

    @property
    def api_name(self) -> str:
        return API_BY_KEY[self.api_key].name


def acl_kind(code: int) -> str:
    """Return the word for a `ResourceType` of ACLs, or the number of an unknown one."""
    return ACL_KINDS.get(code, str(code))


def cut(text: str) -> str:
    """Return a text of bounded length."""
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}..."


def is_change(api_key: int) -> bool:
    """Return whether requests of that API administer the cluster."""
    return api_key in _CHANGES


def requested(request: Message, version: int, find: FindTopic) -> Requested:
    """Describe a request. `find` returns the name of the topic with an id."""
    names = _CHANGES.get(request.API_KEY) or _DATA.get(request.API_KEY)
    found = [] if names is None else list(islice(names(request, find), RESOURCES_MAX + 1))
    is_dry_run = bool(getattr(request, "validate_only", False) or getattr(request, "dry_run", False))
    return Requested(request.API_KEY, version, tuple(map(_bounded, found[:RESOURCES_MAX])),
                     len(found) > RESOURCES_MAX, is_dry_run)


def _bounded(named: Named) -> Named:
    return Named(named.kind, cut(named.name), tuple(map(cut, named.details)))


def _some(details: Iterable[object]) -> tuple[str, ...]:
    """Return the first details, and a mark that there are more."""
    found = [str(each) for each in islice(details, DETAILS_MAX + 1)]
    return tuple(found if len(found) <= DETAILS_MAX else [*found[:DETAILS_MAX], "..."])


def _topic(name: str | None, topic_id: UUID, find: FindTopic) -> str:
    return name or (find(topic_id) or id_text(topic_id) if topic_id != ZERO_ID else "")


def _topics(request: Any, _find: FindTopic) -> Iterator[Named]:
    return (Named("topic", each.name) for each in request.topics)


def _partitions(request: Any, _find: FindTopic) -> Iterator[Named]:
    return (Named("topic", each.name, _some(part.partition_index for part in each.partitions))
            for each in request.topics)


def _deleted_topics(request: Any, find: FindTopic) -> Iterator[Named]:
    yield from (Named("topic", _topic(each.name, each.topic_id, find)) for each in request.topics)
    yield from (Named("topic", name) for name in request.topic_names)


def _configs(request: Any, _find: FindTopic) -> Iterator[Named]:
    return (Named(CONFIG_KINDS.get(each.resource_type, str(each.resource_type)), each.resource_name,
                  _some(config.name for config in each.configs)) for each in request.resources)


def _quotas(request: Any, _find: FindTopic) -> Iterator[Named]:
    return (Named("quota", ",".join(f"{part.entity_type}={part.entity_name or '<default>'}"
                                    for part in islice(entry.entity, DETAILS_MAX)),
                  _some(limit.key for limit in entry.ops)) for entry in request.entries)


def _credentials(request: Any, _find: FindTopic) -> Iterator[Named]:
    yield from (Named("user", each.name, ("delete",)) for each in request.deletions)
    yield from (Named("user", each.name, ("set",)) for each in request.upsertions)


def _features(request: Any, _find: FindTopic) -> Iterator[Named]:
    return (Named("feature", each.feature, (str(each.max_version_level),)) for each in request.feature_updates)


def _elections(request: Any, _find: FindTopic) -> Iterator[Named]:
    return (Named("topic", each.topic, _some(each.partitions)) for each in request.topic_partitions or ())


def _directories(request: Any, _find: FindTopic) -> Iterator[Named]:
    return (Named("topic", each.name, _some(each.partitions)) for directory in request.dirs
            for each in directory.topics)


def _groups(request: Any, _find: FindTopic) -> Iterator[Named]:
    return (Named("group", name) for name in request.groups_names)


def _group_offsets(request: Any, _find: FindTopic) -> Iterator[Named]:
    yield Named("group", request.group_id)
    yield from (Named("topic", each.name, _some(part.partition_index for part in each.partitions))
                for each in request.topics)


def _share_group_offsets(request: Any, _find: FindTopic) -> Iterator[Named]:
    yield Named("group", request.group_id)
    yield from (Named("topic", each.topic_name, _some(part.partition_index for part in getattr(each, "partitions", ())))
                for each in request.topics)


def _created_acls(request: Any, _find: FindTopic) -> Iterator[Named]:
    return (Named(acl_kind(each.resource_type), each.resource_name, (each.principal,)) for each in request.creations)


def _deleted_acls(request: Any, _find: FindTopic) -> Iterator[Named]:
    return (Named(acl_kind(each.resource_type_filter), each.resource_name_filter or "*",
                  (each.principal_filter or "*",)) for each in request.filters)


def _owner(request: Any, _find: FindTopic) -> Iterator[Named]:
    if getattr(request, "owner_principal_name", None):
        yield Named("user", request.owner_principal_name)


def _nothing(_request: Any, _find: FindTopic) -> Iterator[Named]:
    """Name nothing: what such a request has is a secret."""
    return iter(())


def _broker(request: Any, _find: FindTopic) -> Iterator[Named]:
    yield Named("broker", str(request.broker_id))


def _voter(request: Any, _find: FindTopic) -> Iterator[Named]:
    yield Named("controller", str(request.voter_id), (id_text(request.voter_directory_id),))


def _produced(request: Any, find: FindTopic) -> Iterator[Named]:
    return (Named("topic", _topic(each.name, each.topic_id, find), _some(part.index for part in each.partition_data))
            for each in request.topic_data)


def _fetched(request: Any, find: FindTopic) -> Iterator[Named]:
    return (Named("topic", _topic(each.topic, each.topic_id, find), _some(part.partition for part in each.partitions))
            for each in request.topics)


def _share_fetched(request: Any, find: FindTopic) -> Iterator[Named]:
    yield Named("group", request.group_id or "")
    yield from (Named("topic", _topic("", each.topic_id, find), _some(part.partition_index for part in each.partitions))
                for each in request.topics)


_CHANGES: Final[dict[int, Callable[[Any, FindTopic], Iterator[Named]]]] = {
    ApiKey.CREATE_TOPICS: _topics,
    ApiKey.DELETE_TOPICS: _deleted_topics,
    ApiKey.DELETE_RECORDS: _partitions,
    ApiKey.CREATE_ACLS: _created_acls,
    ApiKey.DELETE_ACLS: _deleted_acls,
    ApiKey.ALTER_CONFIGS: _configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _directories,
    ApiKey.CREATE_PARTITIONS: _topics,
    ApiKey.CREATE_DELEGATION_TOKEN: _owner,
    ApiKey.RENEW_DELEGATION_TOKEN: _nothing,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _nothing,
    ApiKey.DELETE_GROUPS: _groups,
    ApiKey.ELECT_LEADERS: _elections,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _partitions,
    ApiKey.OFFSET_DELETE: _group_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _share_group_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _share_group_offsets,
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _credentials,
    ApiKey.UPDATE_FEATURES: _features,
    ApiKey.UNREGISTER_BROKER: _broker,
    ApiKey.ADD_RAFT_VOTER: _voter,
    ApiKey.REMOVE_RAFT_VOTER: _voter,
}
_DATA: Final[dict[int, Callable[[Any, FindTopic], Iterator[Named]]]] = {
    ApiKey.PRODUCE: _produced,
    ApiKey.FETCH: _fetched,
    ApiKey.SHARE_FETCH: _share_fetched,
    ApiKey.SHARE_ACKNOWLEDGE: _share_fetched,
}
CHANGES: Final = tuple(_CHANGES)
"""Keys of the APIs that administer a cluster."""
