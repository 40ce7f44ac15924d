"""Checks of changes to a broker's settings that only the broker itself can make, before the controller decides: the
settings are its own, and `cordoned.log.dirs` names directories that it has (KIP-1066)."""

from typing import TYPE_CHECKING, Final

from kraft.config.node import CORDONED, cordon_fault
from kraft.metadata.image import BROKER_RESOURCE
from kraft.protocol.messages.alter_configs_request import AlterConfigsResource as LegacyResource
from kraft.protocol.messages.incremental_alter_configs_request import AlterConfigsResource

if TYPE_CHECKING:
    from kraft.broker.broker import Broker

DELETE: Final = 1
SUBTRACT: Final = 3


def broker_refusal(broker: "Broker", resource: AlterConfigsResource | LegacyResource) -> str | None:
    """What is wrong with a change to the settings of one broker, in words; None: nothing, or the resource is another.
    A name that is no number is left to the controller."""
    if resource.resource_type != BROKER_RESOURCE or not resource.resource_name:
        return None
    name = resource.resource_name
    if name.isascii() and name.isdigit() and int(name) != broker.node_id:
        return f"Unexpected broker id, expected {broker.node_id}, but received {name}"
    return _cordon_refusal(broker, resource)


def _cordon_refusal(broker: "Broker", resource: AlterConfigsResource | LegacyResource) -> str | None:
    """What is wrong with the directories that a change cordons."""
    for each in resource.configs:
        if each.name == CORDONED and getattr(each, "config_operation", 0) not in (DELETE, SUBTRACT):
            names = [part.strip() for part in each.value.split(",")] if each.value else []
            if (why := cordon_fault(names, broker.config.log_dirs)) is not None:
                return why
    return None
