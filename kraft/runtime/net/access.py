"""One sentence for each listener: which clients may connect, and as which user."""

from kraft.config.node_config import NodeConfig
from kraft.runtime.net.server import Server
from kraft.security.principal import ANONYMOUS


def access_sentences(config: NodeConfig, server: Server) -> dict[str, str]:
    """Return the sentences of a node's listeners, by name."""
    return {each.listener: _sentence(config, server, each.listener) for each in config.listeners}


def _sentence(config: NodeConfig, server: Server, listener: str) -> str:
    protocol = config.protocol(listener)
    if config.has_sasl(listener):
        how = f"over {' and '.join(server.tls[listener].settings.versions)}" if listener in server.tls else (
            "without encryption")
        return f"{protocol}: only a client that logs in by SASL is served, {how}; no client is anonymous"
    if listener not in server.tls:
        return f"{protocol}: any client may connect, without encryption, as {ANONYMOUS}"
    settings = server.tls[listener].settings
    versions = " and ".join(settings.versions)
    match settings.client_auth:
        case "required":
            return (f"{protocol}: only a client with a trusted certificate may connect, over {versions}; the "
                    "certificate names its user, and no client is anonymous")
        case "requested":
            return (f"{protocol}: any client may connect, over {versions}; a trusted certificate names its user, and a "
                    f"client without one is {ANONYMOUS}")
        case _:
            return f"{protocol}: any client may connect, over {versions}, as {ANONYMOUS}"
