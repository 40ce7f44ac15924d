"""Channels of a node's listeners, with authentication where a listener demands it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kraft.config.effective import BrokerLayers
from kraft.config.node_config import NodeConfig
from kraft.metadata.image import MetadataImage
from kraft.runtime.net.server import Server
from kraft_native.net.channel import RequestChannel
from kraft_native.request.reply import Reply

if TYPE_CHECKING:
    from kraft.runtime.net.sasl import SaslGates

OnRequest = Callable[[Reply, int, int, bytes], object]


class ListenerGates:
    """Creates the channels. `sasl` exists once a listener has SASL. `image` returns the metadata that has the
    credentials of SCRAM."""

    def __init__(self, config: NodeConfig, server: Server, image: Callable[[], MetadataImage]) -> None:
        self._config = config
        self._server = server
        self._image = image
        self.sasl: SaslGates | None = None

    def channel(self, listener: str, serve: OnRequest) -> RequestChannel:
        """Create the channel of a listener, with a gate where its clients must authenticate themselves."""
        if not self._config.has_sasl(listener):
            return self._server.channel(listener, serve)
        if self.sasl is None:
            # Imported here: a node without SASL starts without it.
            from kraft.runtime.net.sasl import SaslGates
            self.sasl = SaslGates(self._config, self._server, self._image)
        return self.sasl.channel(listener, serve)

    def reconfigure(self, layers: BrokerLayers) -> None:
        """See `SaslGates.reconfigure`."""
        if self.sasl is not None:
            self.sasl.reconfigure(layers)

    def check(self, layers: BrokerLayers) -> None:
        """See `SaslGates.check`."""
        if self.sasl is not None:
            self.sasl.check(layers)

    def close(self) -> None:
        """See `SaslGates.close`."""
        if self.sasl is not None:
            self.sasl.close()
