"""TLS contexts of a node: of its own listeners, and of the listeners of other nodes that it connects to.

A context is replaced as a whole, when settings or the files that they name have changed. Settings that cannot be used
change nothing: connections continue with the previous context, and the reason is logged.
"""

import asyncio
import logging
import ssl
from typing import Final, cast

from kraft.config.effective import BrokerLayers
from kraft.config.listener_settings import PREFIX, effective_of
from kraft.config.node_config import METRICS, NodeConfig
from kraft.config.setting import Value
from kraft.security.principal_mapping import PrincipalMapping, parse_mapping
from kraft.structs import immutable
from kraft.tls.certificates import CertificateFacts, check_change, facts_of
from kraft.tls.contexts import check_pair, dialed_context, server_context
from kraft.tls.settings import NO_CLIENT, TlsSettings, store_settings
from kraft.tls.stores import TlsError, read_keystore, stamp_of
from kraft_native.base.errors import InvalidArgumentError

log = logging.getLogger(__name__)

CLIENT_AUTH: Final = "ssl.client.auth"
HTTPS: Final = "https"


@immutable
class ListenerTls:
    """TLS of one listener: what its connections are accepted with."""

    settings: TlsSettings
    context: ssl.SSLContext
    mapping: PrincipalMapping
    certificate: CertificateFacts


def tls_settings(config: NodeConfig, layers: BrokerLayers, listener: str) -> TlsSettings:
    """Return the settings of one listener. Raises `TlsError` for a value that cannot be used."""
    def value(name: str) -> Value:
        found = effective_of(name, listener, layers)
        if found.faults:
            raise TlsError(str(found.faults[0]))
        return found.value

    def text(name: str) -> str:
        return str(value(name) or "")

    return TlsSettings(
        prefix=f"{PREFIX}{listener.lower()}.", keystore=store_settings("keystore", text),
        truststore=store_settings("truststore", text),
        client_auth=_client_auth(config, layers, listener), versions=tuple(cast("list[str]", value(
            "ssl.enabled.protocols") or ())), cipher_suites=tuple(cast("list[str]", value("ssl.cipher.suites") or ())),
        checks_name=text("ssl.endpoint.identification.algorithm").lower() == HTTPS,
        mapping_rules=text("ssl.principal.mapping.rules"))


def _client_auth(config: NodeConfig, layers: BrokerLayers, listener: str) -> str:
    """Return whether clients show certificates. Where SASL names the client, only the listener's own setting counts."""
    found = effective_of(CLIENT_AUTH, listener, layers)
    is_own = found.synonyms[0].name != CLIENT_AUTH
    return str(found.value) if is_own or config.protocol(listener) == "SSL" else NO_CLIENT


class TlsContexts:
    """See the module. Loop thread only. Raises `TlsError` when it is created with settings that cannot be used."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._layers = config.layers()
        self._own = (*(each.listener for each in config.listeners if config.has_tls(each.listener)),
                     *([METRICS] if config.has_tls_metrics else []))
        self._dialed = tuple(name for name in dict.fromkeys(config.dialed_listeners) if config.has_tls(name))
        self.listeners: dict[str, ListenerTls] = {}
        """Own listeners with TLS, by name."""
        self.clients: dict[str, ssl.SSLContext] = {}
        """Contexts for connections to other nodes' listeners, by name."""
        self._timer: asyncio.TimerHandle | None = None
        self._settings = {name: tls_settings(config, self._layers, name) for name in self.names}
        self._stamps = {name: tuple(map(stamp_of, settings.files)) for name, settings in self._settings.items()}
        for name in self.names:
            self._load(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all listeners with TLS, own and dialed."""
        return tuple(dict.fromkeys((*self._own, *self._dialed)))

    def watch(self, period_s: float) -> None:
        """Check from now on, in this period, whether files have changed. Call inside the running loop."""
        self.reload()
        self._timer = asyncio.get_running_loop().call_later(period_s, self.watch, period_s)

    def close(self) -> None:
        """End the checks."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def apply(self, layers: BrokerLayers) -> None:
        """Apply settings that have changed. Raises `TlsError` for those that cannot be used: their listeners keep the
        previous ones, and the others are applied."""
        self._layers = layers
        if (errors := self._refresh(is_forced=False)):
            raise TlsError("; ".join(map(str, errors)))

    def check(self, layers: BrokerLayers) -> None:
        """Raise `TlsError` for settings that `apply` would refuse."""
        for name in self.names:
            if tls_settings(self._config, layers, name) != self._settings[name]:
                self._build(name, layers)

    def reload(self, *, is_forced: bool = False) -> None:
        """Read files again that have changed, or all of them. What cannot be used is logged, and changes nothing."""
        for error in self._refresh(is_forced=is_forced):
            log.error("TLS is not changed, the previous certificate stays in use: %s", error)

    def _refresh(self, *, is_forced: bool) -> list[TlsError]:
        errors: list[TlsError] = []
        for name in self.names:
            try:
                settings = tls_settings(self._config, self._layers, name)
                stamps = tuple(map(stamp_of, settings.files))
                if not is_forced and (settings, stamps) == (self._settings[name], self._stamps[name]):
                    continue
                self._settings[name], self._stamps[name] = settings, stamps
                self._load(name)
            except TlsError as error:
                errors.append(error)
            else:
                log.info("listener %s: TLS was loaded again; %s", name, self._described(name))
        return errors

    def _described(self, name: str) -> str:
        found = self.listeners.get(name)
        return "for connections to other nodes" if found is None else f"certificate {found.certificate}"

    def _load(self, name: str) -> None:
        own, client = self._build(name, self._layers)
        if own is not None:
            self.listeners[name] = own
        if client is not None:
            self.clients[name] = client

    def _build(self, name: str, layers: BrokerLayers) -> tuple[ListenerTls | None, ssl.SSLContext | None]:
        """Build the contexts of a listener. Both sides of connections among nodes must accept each other."""
        settings = tls_settings(self._config, layers, name)
        own = self._server(name, settings, layers) if name in self._own else None
        client = dialed_context(settings) if name in self._dialed else None
        if own is not None and client is not None:
            try:
                check_pair(own.context, client)
            except ssl.SSLError as error:
                why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error
                raise TlsError(f"{settings.prefix}ssl: nodes with this key store and trust store do not accept each "
                               f"other: {why}") from error
        return own, client

    def _server(self, name: str, settings: TlsSettings, layers: BrokerLayers) -> ListenerTls:
        context = server_context(settings)
        certificate = facts_of(read_keystore(settings.keystore, settings.prefix).chain)
        try:
            mapping = parse_mapping(settings.mapping_rules)
        except InvalidArgumentError as error:
            raise TlsError(str(error)) from error
        if (previous := self.listeners.get(name)) is not None:
            allowed = {each: bool(effective_of(each, name, layers).value)
                       for each in ("ssl.allow.dn.changes", "ssl.allow.san.changes")}
            check_change(previous.certificate, certificate, settings.prefix, allowed)
        return ListenerTls(settings, context, mapping, certificate)
