"""The client's own options, `kafka.*`. Users of Spark know them by the names of the Java client; the client library
(librdkafka) gets its own names.

An option with another name there is renamed, and the security of a Java client translated. An option that the source
decides itself is refused. An option without a counterpart is refused with what to use instead. The library itself
refuses names that it does not know.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from kraft.client.security import JAAS, PREFIXES, Security, security_of
from kraft_native.base.errors import InvalidArgumentError

PREFIX: Final = "kafka."
_SILENT: Final = logging.getLogger("kraft.spark.librdkafka")

RENAMED: Final = {
    "request.timeout.ms": "socket.timeout.ms",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "max.request.size": "message.max.bytes",
    # A Java producer blocks there mostly for a topic that its broker does not know yet.
    "max.block.ms": "topic.metadata.propagation.max.ms",
}

# These options set internals of a Java client, or how long it waits for memory. They have no effect here.
WITHOUT_EFFECT: Final = frozenset({
    "buffer.memory", "max.poll.records", "max.poll.interval.ms", "default.api.timeout.ms", "check.crcs",
    "client.dns.lookup", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
    "metrics.log.level", "exclude.internal.topics", "allow.auto.create.topics",
})

_OWN: Final = "the data source decides that itself"
_JAVA: Final = "a Java class cannot run here"

REFUSED: Final[Mapping[str, str]] = {
    "key.serializer": _OWN, "value.serializer": _OWN, "key.deserializer": _OWN, "value.deserializer": _OWN,
    "auto.offset.reset": f"{_OWN}: use startingOffsets",
    "enable.auto.commit": f"{_OWN}: offsets are kept in the query's checkpoint",
    "interceptor.classes": _JAVA,
    "metric.reporters": _JAVA,
    "security.providers": _JAVA,
    "partitioner.class": f"{_JAVA}; a row goes to its column partition, else by murmur2 of its key",
    "sasl.client.callback.handler.class": _JAVA,
    "sasl.login.callback.handler.class": _JAVA,
    "transactional.id": _OWN,
    "group.instance.id": "the source is no member of a group",
}

# Security under names that only clients in Java have.
OF_JAVA: Final = frozenset({
    JAAS, "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password", "ssl.truststore.certificates",
    "ssl.keystore.type", "ssl.keystore.certificate.chain", "ssl.keystore.key",
})
# Security under names that are the library's, too, and that our own client keeps as they are.
_COMMON: Final = frozenset({"ssl.cipher.suites", "ssl.enabled.protocols"})
_CHECKS_CERTIFICATES: Final = "enable.ssl.certificate.verification"


def client_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the client library among the options of a read or write. Raise `InvalidArgumentError` for
    a refused option."""
    settings = {}
    for key, value in given.items():
        name = key.lower()
        if not name.startswith(PREFIX) or value is None:
            continue
        name = name.removeprefix(PREFIX)
        if name in REFUSED:
            raise InvalidArgumentError(f"option kafka.{name}: not supported; {REFUSED[name]}")
        if name not in WITHOUT_EFFECT:
            settings[RENAMED.get(name, name)] = value
    return settings if OF_JAVA.isdisjoint(settings) else _translated(settings)


def _translated(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings whose security has names of a Java client under the library's names."""
    try:
        security = security_of(settings)
        translated = security.library_settings()
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"option kafka.{error}") from error
    if security.by_token:
        raise InvalidArgumentError(f"option kafka.{JAAS}: tokenauth is not supported; a delegation token is no login "
                                   "of the client library")
    return {name: value for name, value in settings.items()
            if not name.startswith(PREFIXES) or name in _COMMON} | translated


def own_security(client: Mapping[str, str]) -> Security | None:
    """Return the security of our own connections with these settings. None where only the library supports them:
    Kerberos, revocation lists, certificates that are not checked."""
    if client.get(_CHECKS_CERTIFICATES, "true").lower() == "false":
        return None
    try:
        return security_of(client)
    except InvalidArgumentError:
        return None


def check_settings(client: Mapping[str, str]) -> None:
    """Check these names and values with the client library, without a connection.

    Raise `InvalidArgumentError` when it refuses them.
    """
    try:
        Producer(library_settings({name: value for name, value in client.items() if name != "bootstrap.servers"}))
    except KafkaException as error:
        raise InvalidArgumentError(f"options kafka.*: {error.args[0].str().strip()}") from error


def library_settings(client: Mapping[str, str], **ours: Any) -> dict[str, Any]:
    """Return settings of the client library, which then logs nothing. Each error is reported once, by the caller."""
    _SILENT.addHandler(logging.NullHandler())
    _SILENT.propagate = False
    return {"client.id": "kraft-spark", "logger": _SILENT, **ours, **client}
