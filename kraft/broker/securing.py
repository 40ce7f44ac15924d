"""Check of changed settings that secure a listener, by the broker that they are for: files that cannot be read, keys of
other certificates, logins that cannot be parsed. The controller knows names and forms only."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kraft.broker.request_parts import ENTRIES_MAX
from kraft.config.listener_settings import OF_SASL, OF_TLS, base_of
from kraft.metadata.image import BROKER_RESOURCE, CLUSTER_DEFAULT, Resource
from kraft.protocol.error_names import bounded
from kraft.protocol.messages.alter_configs_request import AlterableConfig as LegacyConfig
from kraft.protocol.messages.alter_configs_request import AlterConfigsResource as LegacyResource
from kraft.protocol.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from kraft_native.base.errors import KraftError

if TYPE_CHECKING:
    from kraft.broker.broker import Broker

SET: Final = 0
DELETE: Final = 1


def secures(key: str) -> bool:
    """Return whether a setting is one of a listener's TLS or SASL."""
    name = base_of(key)
    return name is not None and (name in OF_SASL or name.startswith(OF_TLS))


def security_refusal(broker: "Broker", resource: AlterConfigsResource | LegacyResource) -> str | None:
    """Return why this broker could not use the settings that it would have after a change; None when it could, or when
    the change is another one. Requests with more changes are refused by the controller."""
    if len(resource.configs) > ENTRIES_MAX or not any(secures(each.name) for each in resource.configs):
        return None
    own = Resource(BROKER_RESOURCE, str(broker.node_id))
    is_legacy = isinstance(resource, LegacyResource)
    proposed = {} if is_legacy else dict(broker.image.config(own))
    proposed = _changed(proposed, resource.configs)
    try:
        broker.check_security(broker.config.layers(proposed, broker.image.config(CLUSTER_DEFAULT)))
    except KraftError as error:
        return bounded(str(error))
    return None


def _changed(proposed: dict[str, str], changes: Iterable[AlterableConfig | LegacyConfig]) -> dict[str, str]:
    """Return the settings after the changes. None of those that secure a listener is a list to append to."""
    for each in changes:
        operation = getattr(each, "config_operation", SET)
        if operation == SET and each.value is not None:
            proposed[each.name] = each.value
        elif operation == DELETE:
            proposed.pop(each.name, None)
    return proposed
