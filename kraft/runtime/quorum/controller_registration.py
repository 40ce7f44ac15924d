"""Registration of a controller with the active one (KIP-919, Kafka's `ControllerRegistrationManager`).

It contains the controller's endpoints and supported features. The metadata log has the registration of each
controller's last process; an upgrade of a feature checks all of them.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Final

from kraft.config.node_config import Endpoint as ConfigEndpoint
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import MetadataImage
from kraft.metadata.versions import SUPPORTED
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.controller_registration_request import ControllerRegistrationRequest, Feature, Listener
from kraft.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from kraft.raft.types import Endpoint
from kraft.runtime.net.controller_channel import Answer, ControllerChannel
from kraft.runtime.net.dialer import Backoff
from kraft.runtime.quorum.quorum_replica import QuorumReplica
from kraft.security.principal import Client

log = logging.getLogger(__name__)

VERSION: Final = 0
CLIENT_ID: Final = "kraft-controller-{}"
REGISTER_SECONDS: Final = 30.0
PAUSE_SECONDS: Final = 0.1
PAUSE_SECONDS_MAX: Final = 60.0


class ControllerRegistrar:
    """Registers this process, as a new incarnation, once the log's level has such records, and again after a refusal.
    `served` is called when the controller on this node may have work. Loop thread only."""

    def __init__(self, quorum: QuorumReplica, endpoints: tuple[ConfigEndpoint, ...],
                 served: Callable[[], None]) -> None:
        self._quorum = quorum
        self._node_id = node_id = quorum.config.node_id
        self._served = served
        self._request = ControllerRegistrationRequest(
            controller_id=node_id, incarnation_id=uuid.uuid4(), zk_migration_ready=False,
            listeners=[Listener(name=each.listener, host=each.host, port=each.port,
                                security_protocol=quorum.config.protocol_id(each.listener)) for each in endpoints],
            features=[Feature(name=name, min_supported_version=low, max_supported_version=high)
                      for name, (low, high) in SUPPORTED.items()])
        self._channel = ControllerChannel(CLIENT_ID.format(node_id), quorum.dialer, self._find, self._here,
                                          REGISTER_SECONDS)
        self._backoff = Backoff(PAUSE_SECONDS, PAUSE_SECONDS_MAX)
        self._next: asyncio.Handle | None = None
        self._is_registering = False
        quorum.metadata.subscribe(self._metadata_changed)

    def changed(self) -> None:
        """Adapt to a possible new active controller."""
        self._channel.changed()
        self._check_soon()

    def close(self) -> None:
        """Stop registering."""
        if self._next is not None:
            self._next.cancel()
        self._channel.close()

    def _needed(self) -> bool:
        image = self._quorum.metadata.image
        known = image.controllers.get(self._node_id)
        return image.metadata_version.controller_registration and (
            known is None or known.incarnation_id != self._request.incarnation_id)

    def _metadata_changed(self, delta: MetadataDelta, _image: MetadataImage) -> None:
        if delta.features.touched or self._node_id in delta.controllers.touched:
            self._check_soon()

    def _check_soon(self) -> None:
        """Check in a later iteration: the caller is in the middle of a change's delivery."""
        if self._next is None and not self._is_registering and self._needed():
            self._next = asyncio.get_running_loop().call_soon(self._check)

    def _check(self) -> None:
        self._next = None
        if self._needed():
            self._is_registering = True
            self._channel.submit(self._request, VERSION, self._answered)
            self._served()

    def _answered(self, response: Message) -> None:
        assert isinstance(response, ControllerRegistrationResponse)
        self._is_registering = False
        if response.error_code == ErrorCode.NONE:
            self._backoff.reset()
            return                     # it is committed, and will be in the image
        log.info("this controller is not registered yet: %s", response.error_message or response.error_code)
        self._next = asyncio.get_running_loop().call_later(self._backoff.failed(), self._check)

    def _find(self) -> Endpoint | None:
        replica = self._quorum.raft.replica
        return None if replica.leader_id in (-1, self._node_id) else replica.address_of(replica.leader_id)

    def _here(self, request: Message, version: int, answer: Answer, _client: Client | None) -> bool:
        metadata = self._quorum.metadata
        if not metadata.controller.active:
            return False
        metadata.submit(request, version, self._quorum.clock(), answer)
        return True
