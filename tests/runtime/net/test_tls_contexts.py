"""TLS of a node's listeners: settings, files that change, and what is refused while the old certificate stays."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from kraft.config.node_config import NodeConfig
from kraft.runtime.net.tls_contexts import TlsContexts, tls_settings
from kraft.tls.stores import TlsError
from tests.tls.files import LOCAL, issued, write_pem

pytestmark = pytest.mark.usefixtures("library")

LISTENERS = {
    "listeners": "INSIDE://h:1,OUTSIDE://h:2,PLAIN://h:3,CTRL://h:4", "controller.listener.names": "CTRL",
    "listener.security.protocol.map": "INSIDE:SSL,OUTSIDE:SSL,PLAIN:PLAINTEXT,CTRL:SSL",
    "inter.broker.listener.name": "INSIDE", "ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM",
    "ssl.client.auth": "required",
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write_pem(tmp_path)
    return tmp_path


def config(files: Path, **more: str) -> NodeConfig:
    return NodeConfig({**LISTENERS, "ssl.keystore.location": f"{files}/server.pem",
                       "ssl.truststore.location": f"{files}/ca.pem",
                       **{name.replace("_", "."): value for name, value in more.items()}})


def replaced(path: Path, text: str) -> None:
    """Replace a file by another one of that name, as tools for certificates do."""
    other = path.with_suffix(".new")
    other.write_text(text)
    os.replace(other, path)


def pem(name: str, *hosts: str) -> str:
    one = issued(name, *hosts)
    return one.key + one.certificate


def subjects(contexts: TlsContexts) -> dict[str, str]:
    return {name: each.certificate.subject for name, each in contexts.listeners.items()}


def test_listeners_that_are_encrypted(files: Path) -> None:
    """Own ones have a certificate. The node connects to those between nodes."""
    contexts = TlsContexts(config(files))
    assert subjects(contexts) == {"INSIDE": "CN=server", "OUTSIDE": "CN=server", "CTRL": "CN=server"}
    assert sorted(contexts.clients) == ["CTRL", "INSIDE"]
    assert all(context.check_hostname for context in contexts.clients.values())
    # A node that is a broker alone connects to controllers by its settings for their listener.
    broker = NodeConfig({
        "process.roles": "broker", "listeners": "PLAINTEXT://h:1", "controller.listener.names": "CTRL",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CTRL:SSL",
        "listener.name.ctrl.ssl.truststore.location": f"{files}/ca.pem",
        "listener.name.ctrl.ssl.truststore.type": "PEM",
        "listener.name.ctrl.ssl.endpoint.identification.algorithm": ""})
    contexts = TlsContexts(broker)
    assert (contexts.listeners, list(contexts.clients)) == ({}, ["CTRL"])
    assert not contexts.clients["CTRL"].check_hostname


def test_settings_of_a_listener(files: Path) -> None:
    found = config(files, **{"listener.name.outside.ssl.client.auth": "none", "ssl.enabled.protocols": "TLSv1.3",
                             "listener.name.outside.ssl.key.password": "hush"})
    inside, outside = (tls_settings(found, found.layers(), name) for name in ("INSIDE", "OUTSIDE"))
    assert (inside.client_auth, outside.client_auth) == ("required", "none")
    assert inside.versions == outside.versions == ("TLSv1.3",)
    assert (inside.keystore.key_password, outside.keystore.key_password) == ("", "hush")
    assert "hush" not in repr(outside)
    assert outside.prefix == "listener.name.outside."


def test_certificates_of_clients_where_sasl_names_the_user(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the listener's own ssl.client.auth counts there, as in Kafka."""
    found = config(files)
    monkeypatch.setattr(NodeConfig, "protocol", lambda *_: "SASL_SSL")
    assert tls_settings(found, found.layers(), "OUTSIDE").client_auth == "none"
    layers = found.layers({"listener.name.outside.ssl.client.auth": "requested"})
    assert tls_settings(found, layers, "OUTSIDE").client_auth == "requested"


def test_a_changed_file_is_read_again(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    contexts = TlsContexts(config(files, **{"ssl.allow.dn.changes": "true"}))
    before = contexts.listeners["INSIDE"]
    contexts.reload()
    assert contexts.listeners["INSIDE"] is before
    assert caplog.records == []
    replaced(files / "server.pem", pem("renewed", *LOCAL))
    contexts.reload()
    assert set(subjects(contexts).values()) == {"CN=renewed"}
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        f"listener {name}: TLS was loaded again; certificate CN=renewed" for name in ("INSIDE", "OUTSIDE", "CTRL")]
    client = contexts.clients["INSIDE"]
    contexts.reload(is_forced=True)
    assert contexts.clients["INSIDE"] is not client


@pytest.mark.parametrize(("content", "says"), [
    (None, "cannot be read: No such file"), ("", "no certificate"),
    (issued("server", *LOCAL).certificate + issued("client").key, "the key is not that of the certificate"),
    (pem("somebody", *LOCAL), "is for CN=somebody, the current one for CN=server"),
    (pem("server", "localhost"), "is not for 127.0.0.1, ::1, and the current one is"),
    (issued("server", *LOCAL, of="other").key + issued("server", *LOCAL, of="other").certificate,
     "nodes with this key store and trust store do not accept each other: unable to get local issuer certificate"),
], ids=["missing", "empty", "another key", "another subject", "fewer names", "another authority"])
def test_what_cannot_be_used_changes_nothing(files: Path, caplog: pytest.LogCaptureFixture, content: str | None,
                                             says: str) -> None:
    contexts = TlsContexts(config(files))
    before = dict(contexts.listeners), dict(contexts.clients)
    (files / "server.pem").unlink()
    if content is not None:
        (files / "server.pem").write_text(content)
    contexts.reload()
    after = dict(contexts.listeners), dict(contexts.clients)
    assert after[0]["INSIDE"] is before[0]["INSIDE"]
    assert after[1] == before[1]
    assert says in caplog.text
    assert "the previous certificate stays in use" in caplog.text
    # It is reported once, and the next good file is used.
    caplog.clear()
    contexts.reload()
    assert caplog.text == ""
    replaced(files / "server.pem", pem("server", *LOCAL, "more"))
    contexts.reload()
    assert contexts.listeners["INSIDE"].certificate.names == ("localhost", "more", *LOCAL[1:])


def test_settings_that_change_while_the_node_runs(files: Path) -> None:
    found = config(files)
    contexts = TlsContexts(found)
    (files / "new.pem").write_text(pem("server", *LOCAL, "new"))

    def layers(**dynamic: str) -> object:
        return found.layers({f"listener.name.outside.ssl.{name.replace('_', '.')}": text
                             for name, text in dynamic.items()})

    contexts.apply(layers(keystore_location=f"{files}/new.pem"))  # type: ignore[arg-type]
    assert [name for name, each in contexts.listeners.items() if "new" in each.certificate.names] == ["OUTSIDE"]
    wrong: Mapping[str, str] = {"keystore_location": f"{files}/none.pem"}
    for attempt in (contexts.check, contexts.apply):
        with pytest.raises(TlsError, match=r"listener\.name\.outside\.ssl\.keystore\.location: .*none.pem cannot be"):
            attempt(layers(**wrong))  # type: ignore[arg-type]
    assert "new" in contexts.listeners["OUTSIDE"].certificate.names


@pytest.mark.parametrize(("changes", "says"), [
    ({"ssl.keystore.location": ""}, "listener.name.inside.ssl.keystore.location: is needed"),
    ({"ssl.principal.mapping.rules": "RULE"}, "ssl.principal.mapping.rules: 'RULE' is neither"),
    ({"listener.name.inside.ssl.truststore.location": "{}/other.pem"}, "do not accept each other"),
    ({"ssl.enabled.protocols": "TLSv1.1"}, "'TLSv1.1' is not one of TLSv1.2, TLSv1.3"),
])
def test_a_node_does_not_start_with_settings_that_cannot_be_used(files: Path, changes: dict[str, str],
                                                                 says: str) -> None:
    with pytest.raises(TlsError) as error:
        TlsContexts(config(files, **{name: text.format(files) for name, text in changes.items()}))
    assert says in str(error.value)


def test_files_are_watched_until_the_end(files: Path) -> None:
    async def watch() -> None:
        contexts = TlsContexts(config(files))
        before = contexts.listeners["INSIDE"]
        contexts.watch(0.001)
        replaced(files / "server.pem", pem("server", *LOCAL, "more"))
        async with asyncio.timeout(20):
            while contexts.listeners["INSIDE"] is before:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        contexts.close()
        contexts.close()

    asyncio.run(watch())
