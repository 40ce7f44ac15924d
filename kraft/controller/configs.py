"""AlterConfigs, IncrementalAlterConfigs, and the initial settings of a new topic.

Each resource of a request is decided on its own. `ConfigRules` defines the allowed settings.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from kraft.config.node_config import node_id_of
from kraft.controller.decision import MIN_INSYNC_REPLICAS, NAMED_MAX, Context, Decision, RefusedError, text_of
from kraft.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    CLUSTER_DEFAULT,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
    Resource,
)
from kraft.metadata.snapshot import Record
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_configs_request import AlterConfigsRequest
from kraft.protocol.messages.alter_configs_request import AlterConfigsResource as LegacyResource
from kraft.protocol.messages.alter_configs_response import AlterConfigsResourceResponse as LegacyResult
from kraft.protocol.messages.alter_configs_response import AlterConfigsResponse
from kraft.protocol.messages.clear_elr_record import ClearElrRecord
from kraft.protocol.messages.config_record import ConfigRecord
from kraft.protocol.messages.create_topics_request import CreatableTopic
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3

ALTERABLE: Final = (TOPIC_RESOURCE, BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)

VALUE_BYTES_MAX: Final = 32_767
"""Longest text that a record can hold. A request cannot bring a longer one, but operations on a list can make one."""

CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"

Named = TypeVar("Named", LegacyResource, AlterConfigsResource)
Result = TypeVar("Result", LegacyResult, AlterConfigsResourceResponse)


def new_topic_configs(context: Context, topic: CreatableTopic) -> tuple[dict[str, str], list[Record]]:
    """Return the settings of a new topic, and their records. INVALID_CONFIG for settings that are not allowed."""
    if not topic.configs:
        return {}, []
    unset = [config.name for config in topic.configs if config.value is None]
    if unset:
        raise RefusedError(ErrorCode.INVALID_CONFIG,
                           f"a new topic's settings need values: {', '.join(unset[:NAMED_MAX])}")
    configs = {config.name: config.value for config in topic.configs if config.value is not None}
    resource = Resource(TOPIC_RESOURCE, topic.name)
    context.rules.check(resource, configs, {})
    return configs, _records(context.image, resource, configs)


def _records(image: MetadataImage, resource: Resource, changes: Mapping[str, str | None]) -> list[Record]:
    """Return records for these changes. A new min.insync.replicas also clears the ELR, so that eligibility is decided
    again."""
    records = [Record(ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value))
               for name, value in changes.items()]
    if MIN_INSYNC_REPLICAS in changes and image.elr_enabled:
        if resource.type == TOPIC_RESOURCE:
            records.append(Record(ClearElrRecord(topic_name=resource.name)))
        elif resource == CLUSTER_DEFAULT:
            records.append(Record(ClearElrRecord(topic_name="")))
    return records


def elr_safety_records(image: MetadataImage, min_insync_replicas: str) -> list[Record]:
    """Return records for the precondition of eligible leader replicas: one min.insync.replicas for the whole cluster,
    in the log, so that every controller decides alike. Node settings of it are removed."""
    records = []
    if MIN_INSYNC_REPLICAS not in image.config(CLUSTER_DEFAULT):
        records.append(Record(ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name=MIN_INSYNC_REPLICAS,
                                           value=min_insync_replicas)))
    records += (
        Record(ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=MIN_INSYNC_REPLICAS,
                            value=None))
        for resource, values in image.configs.items()
        if resource.type == BROKER_RESOURCE and resource.name and MIN_INSYNC_REPLICAS in values)
    return records


# --- one resource ---------------------------------------------------------------------------------------------------


def check_exists(image: MetadataImage, resource: Resource) -> None:
    """Refuse settings for a topic or a node that does not exist."""
    if resource.type == TOPIC_RESOURCE and resource.name not in image.topic_ids:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")
    if resource.type == BROKER_RESOURCE and resource.name:
        node_id = node_id_of(resource.name)
        if node_id is None:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"node id {resource.name!r} is not a number of 0 or more")
        if node_id not in image.brokers and node_id not in image.controllers:
            raise RefusedError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"node {resource.name} is not registered")


def check_elr(image: MetadataImage, resource: Resource, changes: Mapping[str, str | None]) -> None:
    """Check that with eligible leader replicas one min.insync.replicas of the cluster stays in force."""
    if resource.type != BROKER_RESOURCE or MIN_INSYNC_REPLICAS not in changes or not image.elr_enabled:
        return
    if resource.name:
        raise RefusedError(ErrorCode.INVALID_CONFIG,
                           f"{MIN_INSYNC_REPLICAS} cannot be set per node while eligible leader replicas are on")
    if changes[MIN_INSYNC_REPLICAS] is None:
        raise RefusedError(ErrorCode.INVALID_CONFIG,
                           f"{MIN_INSYNC_REPLICAS} of the cluster must stay while eligible leader replicas are on")


def check_cordons(context: Context, resource: Resource, changes: Mapping[str, str | None]) -> None:
    """Check changes of cordoned directories. They need a metadata.version with support for it. They are cordoned
    through the broker that has them, because a controller does not know their names. Uncordoning is possible here too,
    while the broker is down."""
    if resource.type != BROKER_RESOURCE or CORDONED_LOG_DIRS not in changes:
        return
    version = context.image.metadata_version
    if not version.cordoned_log_dirs:
        raise RefusedError(ErrorCode.INVALID_CONFIG,
                           f"{CORDONED_LOG_DIRS} cannot be set at metadata.version {version.name}")
    known = split(context.image.config(resource).get(CORDONED_LOG_DIRS))
    added = [name for name in split(changes[CORDONED_LOG_DIRS]) if name not in known]
    if added and not context.forwarded:
        raise RefusedError(ErrorCode.INVALID_CONFIG,
                           f"{CORDONED_LOG_DIRS}: a controller can remove directories only; {', '.join(added)} must be "
                           f"cordoned through the broker")


def changed(
    context: Context, resource: Resource, proposed: Mapping[str, str], changes: Mapping[str, str | None]
) -> list[Record]:
    """Return records of `changes`, after which `proposed` is everything that is set. Broker settings are written even
    if unchanged: that makes the brokers read files again that the settings name."""
    existing = context.image.config(resource)
    check_elr(context.image, resource, changes)
    check_cordons(context, resource, changes)
    context.rules.check(resource, proposed, existing)
    check_exists(context.image, resource)
    return _records(context.image, resource, {
        name: value for name, value in changes.items()
        if resource.type == BROKER_RESOURCE or existing.get(name) != value})


def split(value: str | None) -> list[str]:
    return [part for part in (value or "").split(",") if part]


def new_value(context: Context, resource: Resource, config: AlterableConfig) -> str | None:
    """Return the value of a setting after one operation; None deletes it."""
    operation, name = config.config_operation, config.name
    if operation == DELETE:
        return None
    if operation not in (SET, APPEND, SUBTRACT):
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"{name}: config operation {operation} is not 0, 1, 2 or 3")
    if config.value is None:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"{name}: this operation needs a value")
    if operation == SET:
        return config.value
    if not context.rules.is_list(resource.type, name):
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"{name} is no list: nothing can be appended or subtracted")
    old = context.image.config(resource).get(name)
    parts = split(context.rules.default(resource.type, name) if old is None else old)
    change = appended if operation == APPEND else subtracted
    value = ",".join(change(parts, config.value.split(",")))
    if len(value.encode()) > VALUE_BYTES_MAX:
        raise RefusedError(ErrorCode.INVALID_CONFIG, "The configuration value cannot be added because it exceeds the "
                                                     f"maximum value size of {VALUE_BYTES_MAX} bytes.")
    return value


def appended(parts: Sequence[str], more: Iterable[str]) -> list[str]:
    """Return a list with those of `more` at its end that it does not have. Time is linear in both: a value may have
    thousands of parts."""
    present = dict.fromkeys(parts)
    new = dict.fromkeys(part for part in more if part not in present)
    return [*parts, *new]


def subtracted(parts: Iterable[str], less: Iterable[str]) -> list[str]:
    """Return a list without the first occurrence of each part of `less`, which may name a part repeatedly."""
    left = Counter(less)
    kept = []
    for part in parts:
        if left[part] > 0:
            left[part] -= 1
        else:
            kept.append(part)
    return kept


def incremental_change(context: Context, resource: Resource, configs: Sequence[AlterableConfig]) -> list[Record]:
    """Return records of one resource of IncrementalAlterConfigs."""
    _check_names(config.name for config in configs)
    changes = {config.name: new_value(context, resource, config) for config in configs}
    proposed = dict(context.image.config(resource))
    for name, value in changes.items():
        if value is None:
            proposed.pop(name, None)
        else:
            proposed[name] = value
    return changed(context, resource, proposed, changes)


def legacy_change(context: Context, resource: Resource, configs: Sequence[tuple[str, str | None]]) -> list[Record]:
    """Return records of one resource of AlterConfigs: settings that are not named are deleted."""
    _check_names(name for name, _ in configs)
    proposed: dict[str, str] = {}
    for name, value in configs:
        if value is None:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"{name}: a value is needed")
        proposed[name] = value
    existing = context.image.config(resource)
    changes: dict[str, str | None] = {**proposed, **dict.fromkeys(name for name in existing if name not in proposed)}
    return changed(context, resource, proposed, changes)


def _check_names(names: Iterable[str]) -> None:
    seen: dict[str, None] = {}
    for name in names:
        if name in seen:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"{name} is named more than once")
        seen[name] = None


# --- requests -------------------------------------------------------------------------------------------------------


def _check_resource(resource: Resource, count: int) -> None:
    if count > 1:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "the resource is named more than once")
    if resource.type not in ALTERABLE:
        raise RefusedError(ErrorCode.INVALID_REQUEST,
                           f"resource type {resource.type} has no settings in the metadata log")


def alter_configs(context: Context, request: AlterConfigsRequest) -> Decision[AlterConfigsResponse]:
    """Replace the settings of whole resources: settings that the request does not name are deleted."""
    results, records = _altered(request.resources, LegacyResult, lambda resource, each: legacy_change(
        context, resource, [(config.name, config.value) for config in each.configs]))
    return Decision(AlterConfigsResponse(responses=results), () if request.validate_only else records)


def incremental_alter_configs(
    context: Context, request: IncrementalAlterConfigsRequest
) -> Decision[IncrementalAlterConfigsResponse]:
    """Change single settings: set, delete, append, subtract (KIP-339)."""
    results, records = _altered(request.resources, AlterConfigsResourceResponse,
                                lambda resource, each: incremental_change(context, resource, each.configs))
    return Decision(IncrementalAlterConfigsResponse(responses=results), () if request.validate_only else records)


def _altered(named: Sequence[Named], result: Callable[..., Result],
             change: Callable[[Resource, Named], list[Record]]) -> tuple[list[Result], list[Record]]:
    """Return the result of each resource, and the records of those that are not refused."""
    records: list[Record] = []
    results: list[Result] = []
    counts = Counter(Resource(each.resource_type, each.resource_name) for each in named)
    for each in named:
        resource = Resource(each.resource_type, each.resource_name)
        count = counts.pop(resource, 0)
        if count == 0:
            continue
        code, message = ErrorCode.NONE, None
        try:
            _check_resource(resource, count)
            records += change(resource, each)
        except RefusedError as refusal:
            code, message = refusal.error, refusal.message
        results.append(result(resource_type=resource.type, resource_name=resource.name, error_code=code,
                              error_message=text_of(code, message)))
    return results, records


def alter_configs_refused(request: AlterConfigsRequest, code: ErrorCode, message: str | None) -> AlterConfigsResponse:
    """Return the same error for every resource."""
    return AlterConfigsResponse(responses=[
        LegacyResult(resource_type=each.resource_type, resource_name=each.resource_name, error_code=code,
                     error_message=text_of(code, message)) for each in request.resources])


def incremental_alter_configs_refused(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, message: str | None
) -> IncrementalAlterConfigsResponse:
    """Return the same error for every resource."""
    return IncrementalAlterConfigsResponse(responses=[
        AlterConfigsResourceResponse(
            resource_type=each.resource_type, resource_name=each.resource_name, error_code=code,
            error_message=text_of(code, message)) for each in request.resources])
