"""DescribeConfigs (key 32), versions 1 to 4: the settings, their sources, and their meaning.

Resources are topics, this broker (its id, or "" for the dynamic defaults of all), its loggers, groups, and
client-metrics subscriptions.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from itertools import chain
from typing import Final

from kraft.broker.api import Answer, RequestContext, Steps, counted_steps
from kraft.broker.broker import Broker
from kraft.config import tables
from kraft.config.effective import (
    BrokerLayers,
    Effective,
    Source,
    broker_value,
    client_metrics_value,
    group_value,
    logger_level,
    topic_value,
    unknown_names,
    unknown_value,
)
from kraft.config.listener_settings import listener_keys, listener_value
from kraft.config.setting import UNKNOWN, Setting
from kraft.config.unsupported import READ_AT_START
from kraft.log_dir import TopicPartition
from kraft.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    CLUSTER_DEFAULT,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    Resource,
)
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import bounded
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kraft.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kraft_native.base.errors import InvalidArgumentError

# ConfigType, by the type name in the tables of `kraft.config`.
TYPES: Final = {UNKNOWN: 0, "boolean": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7,
                "class": 8, "password": 9}


class _RefusedError(Exception):
    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.message)
        self.code = code


def describe_configs(broker: Broker, request: DescribeConfigsRequest, _context: RequestContext,
                     answer: Answer) -> Steps:
    """Answer each resource with its own result and error. A resource that is named twice has one result, with the
    settings of its first mention."""
    results = []
    named: dict[tuple[int, str], DescribeConfigsResource] = {}
    for each in request.resources:
        named.setdefault((each.resource_type, each.resource_name), each)
        yield
    for resource in named.values():
        keys = yield from counted_steps(resource.configuration_keys or ())
        results.append(_result(broker, request, resource, keys))
        yield
    answer(DescribeConfigsResponse(results=results))


def _result(broker: Broker, request: DescribeConfigsRequest,
            resource: DescribeConfigsResource, keys: Collection[str]) -> DescribeConfigsResult:
    """Return the settings with these `keys`; without any, all."""
    try:
        found = _settings(broker, resource)
        code, message = ErrorCode.NONE, None
    except _RefusedError as refused:
        found, code, message = [], refused.code, bounded(str(refused))
    configs = [_config(each, request, resource) for each in found if not keys or each.setting.name in keys]
    return DescribeConfigsResult(
        error_code=code, error_message=message, resource_type=resource.resource_type,
        resource_name=resource.resource_name, configs=configs)


def _is_cluster_default(resource: DescribeConfigsResource) -> bool:
    return resource.resource_type == BROKER_RESOURCE and not resource.resource_name


def _settings(broker: Broker, resource: DescribeConfigsResource) -> list[Effective]:
    describe = _DESCRIBERS.get(resource.resource_type)
    if describe is None:
        raise _RefusedError(ErrorCode.INVALID_REQUEST,
                            f"resource type {resource.resource_type} has no settings that can be described here")
    return list(describe(broker, resource.resource_name))


def _topic(broker: Broker, name: str) -> Iterable[Effective]:
    try:
        TopicPartition.checked(name, 0)
    except InvalidArgumentError as error:
        raise _RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)) from error
    if broker.image.topic(name) is None:
        raise _RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    overrides, layers = broker.topic_overrides(name), broker.layers()
    return [topic_value(each.name, overrides, layers) for each in tables.section("topic").values()
            if not each.internal or each.name in overrides]


def _broker(broker: Broker, name: str) -> Iterable[Effective]:
    if not name:
        defaults = broker.image.config(CLUSTER_DEFAULT)
        layers = BrokerLayers(dynamic_default=defaults)
        return [*(broker_value(each, layers) for each in defaults if each in tables.broker_settings()),
                *(listener_value(each, layers) for each in listener_keys(defaults)),
                *(unknown_value(each, layers) for each in unknown_names(layers))]
    layers = broker.layers()
    if name != str(broker.node_id):
        raise _RefusedError(ErrorCode.INVALID_REQUEST, f"broker {name!r}: this is {broker.node_id}, which knows its "
                                                       "own settings and, for an empty name, the defaults of all")
    layers = replace(layers, static={"broker.id": name, **layers.static})
    given = dict.fromkeys(chain.from_iterable(texts for _source, texts in layers))
    found = [broker_value(each.name, layers) for each in tables.broker_settings().values()
             if not each.internal or each.name in given]
    of_listeners = sorted(dict.fromkeys(key for _source, texts in layers for key in listener_keys(texts)))
    found += [listener_value(key, layers) for key in of_listeners]
    found += [unknown_value(each, layers) for each in unknown_names(layers)]
    # Settings that are not part of a node's file are listed only when they are set.
    return [each for each in found if each.source != Source.DEFAULT
            or each.setting.name not in tables.section("broker_dynamic")]


def _loggers(broker: Broker, name: str) -> Iterable[Effective]:
    if name != str(broker.node_id):
        raise _RefusedError(ErrorCode.INVALID_REQUEST, f"broker {name!r}: this is {broker.node_id}, which has loggers "
                                                       "of its own only")
    return [logger_level(logger, level) for logger, level in broker.loggers.levels().items()]


def _group(broker: Broker, name: str) -> Iterable[Effective]:
    if not name:
        raise _RefusedError(ErrorCode.INVALID_REQUEST, "the group's name is empty")
    overrides, layers = broker.image.config(Resource(GROUP_RESOURCE, name)), broker.layers()
    return [group_value(each.name, overrides, layers) for each in _public(tables.section("group").values())]


def _client_metrics(broker: Broker, name: str) -> Iterable[Effective]:
    if not name:
        raise _RefusedError(ErrorCode.INVALID_REQUEST, "the name of the client-metrics subscription is empty")
    overrides = broker.image.config(Resource(CLIENT_METRICS_RESOURCE, name))
    return [client_metrics_value(each.name, overrides) for each in _public(tables.section("client_metrics").values())]


_DESCRIBERS: Final[dict[int, Callable[[Broker, str], Iterable[Effective]]]] = {
    TOPIC_RESOURCE: _topic,
    BROKER_RESOURCE: _broker,
    BROKER_LOGGER_RESOURCE: _loggers,
    GROUP_RESOURCE: _group,
    CLIENT_METRICS_RESOURCE: _client_metrics,
}


def _public(settings: Iterable[Setting]) -> Iterable[Setting]:
    return (setting for setting in settings if not setting.internal)


def _config(found: Effective, request: DescribeConfigsRequest,
            resource: DescribeConfigsResource) -> DescribeConfigsResourceResult:
    setting = found.setting
    hidden = setting.sensitive
    synonyms = found.synonyms
    if _is_cluster_default(resource):
        synonyms = tuple(each for each in synonyms if each.source == Source.DYNAMIC_DEFAULT_BROKER)
    return DescribeConfigsResourceResult(
        name=setting.name, value=None if hidden else setting.format(found.value), config_source=found.source,
        read_only=resource.resource_type == BROKER_RESOURCE and (not setting.update or setting.name in READ_AT_START),
        is_sensitive=hidden, config_type=TYPES[setting.type],
        synonyms=[DescribeConfigsSynonym(name=each.name, value=None if hidden else each.text, source=each.source)
                  for each in synonyms] if request.include_synonyms else [],
        documentation=setting.documentation if request.include_documentation else None,
    )
