"""Registration of a node's broker with the controller."""

import uuid
from uuid import UUID

from kraft.config.node_config import Endpoint, NodeConfig
from kraft.metadata.versions import SUPPORTED
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from kraft_native.base.errors import OperationError


class RegistrationError(OperationError):
    """The controller refused this node's broker."""


class ReplacedError(OperationError):
    """Another process was registered with this node's id, which is possible once this one's session has expired."""


def broker_registration(config: NodeConfig, cluster_id: str, endpoints: tuple[Endpoint, ...],
                        directories: tuple[UUID, ...], previous_epoch: int) -> BrokerRegistrationRequest:
    """Registration of a new incarnation. `previous_epoch` is the one in which the broker stopped cleanly, else -1."""
    rack = config["broker.rack"]
    return BrokerRegistrationRequest(
        broker_id=config.node_id, cluster_id=cluster_id, incarnation_id=uuid.uuid4(),
        listeners=[Listener(name=each.listener, host=each.host, port=each.port,
                            security_protocol=config.protocol_id(each.listener)) for each in endpoints],
        features=[Feature(name=name, min_supported_version=low, max_supported_version=high)
                  for name, (low, high) in SUPPORTED.items()],
        rack=rack if isinstance(rack, str) else None, log_dirs=directories, previous_broker_epoch=previous_epoch)
