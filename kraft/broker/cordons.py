"""Checks of changed settings by the broker that gets the request, before the controller decides.

A resource is named once. The settings of a broker must be this broker's own, `cordoned.log.dirs` must name directories
that it has (KIP-1066), and it must be able to use those that secure its listeners."""

from typing import TYPE_CHECKING, Final

from kraft.broker.request_parts import ENTRIES_MAX
from kraft.broker.securing import security_refusal
from kraft.config.node_config import CORDONED, cordon_fault, node_id_of
from kraft.metadata.image import BROKER_RESOURCE
from kraft.protocol.error_names import bounded
from kraft.protocol.messages.alter_configs_request import AlterConfigsResource as LegacyResource
from kraft.protocol.messages.incremental_alter_configs_request import AlterConfigsResource

if TYPE_CHECKING:
    from kraft.broker.broker import Broker

DELETE: Final = 1
SUBTRACT: Final = 3


def broker_refusal(broker: "Broker", resource: AlterConfigsResource | LegacyResource, count: int) -> str | None:
    """Return the fault of a change, in words; None: none that a broker finds. `count`: how often the request names the
    resource. This broker refuses one mention and the controller another one, so a resource is counted before either
    does. The controller refuses a name that is not a number."""
    if count > 1:
        return "the resource is named more than once"
    if resource.resource_type != BROKER_RESOURCE or not resource.resource_name:
        return None
    name = resource.resource_name
    if node_id_of(name) not in (None, broker.node_id):
        return bounded(f"Unexpected broker id, expected {broker.node_id}, but received {name}")
    return _cordon_refusal(broker, resource) or security_refusal(broker, resource)


def _cordon_refusal(broker: "Broker", resource: AlterConfigsResource | LegacyResource) -> str | None:
    """Return the fault of the directories that a change cordons. Only the first change is checked: the controller
    refuses a resource with two."""
    changed = next((each for each in resource.configs[:ENTRIES_MAX] if each.name == CORDONED), None)
    if changed is None or not changed.value or getattr(changed, "config_operation", 0) in (DELETE, SUBTRACT):
        return None
    why = cordon_fault((part.strip() for part in changed.value.split(",")), broker.config.log_dirs)
    return None if why is None else bounded(why)
