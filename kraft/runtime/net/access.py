"""One sentence for each listener: which clients may connect, as which user, and what an anonymous client may do."""

from kraft.config.authorizer_settings import AuthorizerSettings, authorizer_settings
from kraft.config.node_config import METRICS, NodeConfig
from kraft.config.sasl_settings import sasl_settings
from kraft.runtime.net.server import Server
from kraft.security.principal import ANONYMOUS


def access_sentences(config: NodeConfig, server: Server) -> dict[str, str]:
    """Return the sentences of a node's listeners, by name. That of the metrics listener, if there is one, is last."""
    found = {each.listener: _sentence(config, server, each.listener) for each in config.listeners}
    if config["kraft.metrics.listener"]:
        found[METRICS] = _of_metrics(config, server)
    return found


def _of_metrics(config: NodeConfig, server: Server) -> str:
    has_token = bool(config["kraft.metrics.token.file"])
    readers = "only a client with a token may read metrics" if has_token else "any client may read metrics"
    if METRICS not in server.tls:
        how = "the token and the metrics are not encrypted" if has_token else "without encryption"
    else:
        settings = server.tls[METRICS].settings
        needs = " and a trusted certificate" if settings.client_auth == "required" else ""
        how = f"over {' and '.join(settings.versions)}{needs}"
    return f"HTTP: {readers}, {how}; /health and /ready are open to each client that can connect"


def _sentence(config: NodeConfig, server: Server, listener: str) -> str:
    protocol = config.protocol(listener)
    settings = server.tls[listener].settings if listener in server.tls else None
    authorizer = authorizer_settings(config.values)
    users, anonymous = _of_users(authorizer), _of_anonymous(authorizer)
    how = "without encryption" if settings is None else f"over {' and '.join(settings.versions)}"
    if config.has_sasl(listener):
        mechanisms = ", ".join(sasl_settings(listener, config.layers()).mechanisms)
        return (f"{protocol}: only a client that logs in by SASL ({mechanisms}) is served, {how}, and "
                f"{users}; an anonymous client may do nothing else")
    match settings.client_auth if settings is not None else None:
        case "required":
            return (f"{protocol}: only a client with a trusted certificate may connect, {how}; the certificate names "
                    f"its user, and {users}; no client is anonymous")
        case "requested":
            return (f"{protocol}: any client may connect, {how}; a trusted certificate names its user, and "
                    f"{users}; a client without one is {ANONYMOUS}, which {anonymous}")
        case _:
            return f"{protocol}: any client may connect, {how}, as {ANONYMOUS}, which {anonymous}"


def _of_users(authorizer: AuthorizerSettings | None) -> str:
    """Return what a client with a name may do, as the end of a sentence."""
    if authorizer is None:
        return "may do everything, as there is no authorizer"
    if authorizer.allow_everyone:
        return "may do what ACLs allow, and everything with resources that have none"
    return "may do what ACLs allow"


def _of_anonymous(authorizer: AuthorizerSettings | None) -> str:
    if authorizer is not None and str(ANONYMOUS) in authorizer.super_users:
        return "is a super user and may do everything"
    return _of_users(authorizer)
