"""The listeners of a node: addresses that are bound before the parts that answer their requests exist."""

from typing import Self

from kraft.config.node_config import Endpoint, NodeConfig
from kraft.runtime.net.server import Listener, Server


class Listeners:
    """Bound listeners by name, with real ports. Nothing is accepted until `Serving.accept`."""

    def __init__(self, config: NodeConfig, bound: dict[str, Listener]) -> None:
        self._config = config
        self.bound = bound

    @classmethod
    async def bind(cls, config: NodeConfig, server: Server) -> Self:
        """Bind all configured addresses. The server closes them."""
        return cls(config, {each.listener: await server.bind(each.listener, each.host, each.port)
                            for each in config.listeners})

    def advertised(self, endpoint: Endpoint) -> Endpoint:
        """Advertised address of a listener. A port of 0 is replaced by the one that the system chose."""
        found = self._config.advertised(endpoint)
        return found if found.port else found._replace(port=self.bound[endpoint.listener].port)
