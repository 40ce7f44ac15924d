"""Sentences about each listener: which clients may connect, and what an anonymous one may do."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraft.config.authorizer_settings import STANDARD_AUTHORIZER
from kraft.config.node_config import NodeConfig
from kraft.runtime.net.access import access_sentences

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
NO_AUTHORIZER = "may do everything, as there is no authorizer"
BY_ACLS = "may do what ACLs allow"
OPEN = "may do what ACLs allow, and everything with resources that have none"


def sentences(client_auth: str | None = None, **settings: str) -> dict[str, str]:
    config = NodeConfig({
        "log.dirs": "data", "listeners": "A://127.0.0.1:0,LOGIN://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER", "inter.broker.listener.name": "A",
        "listener.security.protocol.map": "A:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN", "listener.name.login.plain.sasl.jaas.config": PLAIN,
        **{name.replace("_", "."): text for name, text in settings.items()}})
    tls = {} if client_auth is None else {"A": SimpleNamespace(settings=SimpleNamespace(
        versions=("TLSv1.2", "TLSv1.3"), client_auth=client_auth))}
    return access_sentences(config, cast("Any", SimpleNamespace(tls=tls)))


@pytest.mark.parametrize(("settings", "anonymous", "users"), [
    ({}, NO_AUTHORIZER, NO_AUTHORIZER),
    ({"authorizer_class_name": STANDARD_AUTHORIZER}, BY_ACLS, BY_ACLS),
    ({"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:admin;User:ANONYMOUS"},
     "is a super user and may do everything", BY_ACLS),
    ({"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": "true"}, OPEN, OPEN),
])
def test_what_an_anonymous_client_may_do(settings: dict[str, str], anonymous: str, users: str) -> None:
    found = sentences(**settings)
    assert found["A"] == f"PLAINTEXT: any client may connect, without encryption, as User:ANONYMOUS, which {anonymous}"
    assert found["LOGIN"] == (f"SASL_PLAINTEXT: only a client that logs in by SASL (PLAIN) is served, without "
                              f"encryption, and {users}; an anonymous client may do nothing else")


@pytest.mark.parametrize(("client_auth", "words"), [
    ("none", f"any client may connect, over TLSv1.2 and TLSv1.3, as User:ANONYMOUS, which {NO_AUTHORIZER}"),
    ("requested", (f"a trusted certificate names its user, and {NO_AUTHORIZER}; a client without one is "
     f"User:ANONYMOUS, which {NO_AUTHORIZER}")),
    ("required", f"the certificate names its user, and {NO_AUTHORIZER}; no client is anonymous"),
])
def test_certificates(client_auth: str, words: str) -> None:
    assert sentences(client_auth)["A"].endswith(words)
