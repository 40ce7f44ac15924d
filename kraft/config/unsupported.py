"""Settings of Kafka that cannot have their effect here: they keep their default, or stay empty. Those that may be set
nevertheless are in `absent`.

An operator that relies on one of them must learn of it before the node serves.
"""

from typing import Final

from kraft.config.oauth_settings import ASSERTION_SETTINGS
from kraft.config.setting import Setting, Value

# Settings of SASL that have their effect on listeners with SASL.
SASL_SUPPORTED: Final = frozenset({
    "connections.max.reauth.ms", "sasl.enabled.mechanisms", "sasl.jaas.config", "sasl.mechanism.controller.protocol",
    "sasl.mechanism.inter.broker.protocol", "sasl.server.max.receive.size",
    "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms",
    "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms",
    "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.scope",
    "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.token.endpoint.url",
    *ASSERTION_SETTINGS,
})
SASL: Final = "this version has PLAIN, SCRAM and OAUTHBEARER, without plug-ins and without Kerberos"
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer."
# Kafka's own classes for OAUTHBEARER, which a file of Kafka must name: what they do happens here without them.
HANDLERS: Final = {
    "sasl.server.callback.handler.class": (f"{_OAUTH}OAuthBearerValidatorCallbackHandler",
                                           f"{_OAUTH}secured.OAuthBearerValidatorCallbackHandler"),
    "sasl.login.callback.handler.class": (f"{_OAUTH}OAuthBearerLoginCallbackHandler",
                                          f"{_OAUTH}secured.OAuthBearerLoginCallbackHandler"),
    "sasl.oauthbearer.jwt.retriever.class": tuple(f"{_OAUTH}{name}JwtRetriever" for name in (
        "Default", "ClientCredentials", "File")),
}
# By name prefix, why they cannot work.
FAMILIES: Final = {"sasl.": SASL}
_JAVA: Final = "Java classes cannot be loaded here"
REFUSED: Final = {
    **dict.fromkeys((
        "config.providers", "group.share.persister.class.name", "kafka.metrics.reporters",
        "metric.reporters", "remote.log.metadata.manager.class.name", "remote.log.storage.manager.class.name",
        "security.providers"), _JAVA),
    "remote.log.storage.system.enable": "this version has no tiered storage",
    "remote.storage.enable": "this version has no tiered storage",
    "log.preallocate": "segments grow as they are written",
    "preallocate": "segments grow as they are written",
}
# Kafka can change them at run time; here they are read at the start.
READ_AT_START: Final = ("listeners", "listener.security.protocol.map")
_OPENSSL: Final = "it selects among implementations of Java, and TLS is OpenSSL's here"
OF_JAVA: Final = {
    **dict.fromkeys(("ssl.keymanager.algorithm", "ssl.provider", "ssl.secure.random.implementation",
                     "ssl.trustmanager.algorithm"), _OPENSSL),
    "ssl.protocol": "ssl.enabled.protocols says which versions of TLS are used",
}
"""Settings of TLS without effect. They neither weaken nor strengthen a connection, so they may have any value."""


def is_of_sasl(name: str) -> bool:
    """Return whether the setting has no effect where no listener has SASL."""
    return name.startswith("sasl.") or name == "connections.max.reauth.ms"


def is_supported_of_sasl(name: str, value: Value) -> bool:
    """Return whether the setting is one of SASL that has its effect with this value."""
    return name in SASL_SUPPORTED or value in HANDLERS.get(name, ())


def check_supported(setting: Setting, value: Value) -> None:
    """Raise `InvalidConfigError` for a value that could not have its effect."""
    if value in (None, "", []) or value == setting.default or is_supported_of_sasl(setting.name, value):
        return
    why = REFUSED.get(setting.name) or (_JAVA if setting.type == "class" else None)
    why = why or next((reason for prefix, reason in FAMILIES.items() if setting.name.startswith(prefix)), None)
    if why is not None:
        raise setting.refuse(setting.format(value), f"is not supported: {why}")
