"""Which directories `cordoned.log.dirs` may name (KIP-1066)."""

from typing import TYPE_CHECKING, Final

from kraft.metadata.image import BROKER_RESOURCE
from kraft.protocol.messages.alter_configs_request import AlterConfigsResource as LegacyResource
from kraft.protocol.messages.incremental_alter_configs_request import AlterConfigsResource

if TYPE_CHECKING:
    from kraft.broker.broker import Broker

CORDONED: Final = "cordoned.log.dirs"
ALL: Final = "*"
DELETE: Final = 1
SUBTRACT: Final = 3


def cordon_refusal(broker: "Broker", resource: AlterConfigsResource | LegacyResource) -> str | None:
    """What is wrong with the directories that a request cordons; None: nothing, or they are not this broker's. The
    controller does not know them."""
    if resource.resource_type != BROKER_RESOURCE or resource.resource_name != str(broker.node_id):
        return None
    for each in resource.configs:
        if each.name == CORDONED and getattr(each, "config_operation", 0) not in (DELETE, SUBTRACT):
            names = [part.strip() for part in (each.value or "").split(",")] if each.value else []
            if ALL in names and names != [ALL]:
                return f"{CORDONED}: {ALL} stands for all directories and must be alone"
            known = {name: None for path in broker.config.log_dirs for name in (str(path), str(path.absolute()))}
            unknown = [name for name in names if name not in known and name != ALL]
            if unknown:
                return f"{CORDONED}: {', '.join(unknown)} is not in log.dirs"
    return None
