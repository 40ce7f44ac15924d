"""Checks of changes to a broker's settings that only the broker can make, before the controller decides.

The settings must be the broker's own, and `cordoned.log.dirs` must name directories that it has (KIP-1066)."""

from typing import TYPE_CHECKING, Final

from kraft.config.node_config import CORDONED, cordon_fault, node_id_of
from kraft.metadata.image import BROKER_RESOURCE
from kraft.protocol.error_names import bounded
from kraft.protocol.messages.alter_configs_request import AlterConfigsResource as LegacyResource
from kraft.protocol.messages.incremental_alter_configs_request import AlterConfigsResource

if TYPE_CHECKING:
    from kraft.broker.broker import Broker

DELETE: Final = 1
SUBTRACT: Final = 3


def broker_refusal(broker: "Broker", resource: AlterConfigsResource | LegacyResource) -> str | None:
    """Return the fault of a change to one broker's settings, in words; None: none, or the resource is of another kind.
    The controller refuses a name that is not a number."""
    if resource.resource_type != BROKER_RESOURCE or not resource.resource_name:
        return None
    name = resource.resource_name
    if node_id_of(name) not in (None, broker.node_id):
        return bounded(f"Unexpected broker id, expected {broker.node_id}, but received {name}")
    return _cordon_refusal(broker, resource)


def _cordon_refusal(broker: "Broker", resource: AlterConfigsResource | LegacyResource) -> str | None:
    """Return the fault of the directories that a change cordons."""
    for each in resource.configs:
        if each.name == CORDONED and getattr(each, "config_operation", 0) not in (DELETE, SUBTRACT):
            names = [part.strip() for part in each.value.split(",")] if each.value else []
            if (why := cordon_fault(names, broker.config.log_dirs)) is not None:
                return bounded(why)
    return None
