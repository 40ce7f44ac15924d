"""Secrets are hidden by the names of settings, by their values anywhere, and by their form."""

import json

import pytest

from kraft.cli.redaction import HIDDEN, Redactor, is_hidden, is_secret

JAAS = ('org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="hunter2-admin" '
        'user_alice="hunter2-alice";')
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqh\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize("name", [
    "sasl.jaas.config", "ssl.keystore.password", "ssl.key.password", "ssl.keystore.key", "sasl.password",
    "delegation.token.secret.key", "sasl.oauthbearer.client.credentials.client.secret",
    "listener.name.secure.plain.sasl.jaas.config", "listener.name.secure.ssl.keystore.password", "my.vault.setting",
])
def test_hidden_settings(name: str) -> None:
    assert is_hidden(name)


@pytest.mark.parametrize("name", [
    "log.dirs", "listeners", "ssl.keystore.location", "listener.name.secure.ssl.client.auth", "node.id",
    "delegation.token.expiry.time.ms", "kraft.metrics.token.file",
])
def test_shown_settings(name: str) -> None:
    assert not is_hidden(name)
    assert not is_secret(name)


def test_values_of_secrets_disappear_from_texts() -> None:
    redactor = Redactor()
    shown = redactor.settings({"sasl.jaas.config": JAAS, "ssl.keystore.password": "changeit-1", "node.id": "7"})
    assert shown == {"sasl.jaas.config": HIDDEN, "ssl.keystore.password": HIDDEN, "node.id": "7"}
    text = redactor.text("admin of node 7 used hunter2-alice and hunter2-admin, store changeit-1")
    assert text == f"admin of node 7 used {HIDDEN} and {HIDDEN}, store {HIDDEN}"


def test_a_short_value_is_hidden_where_it_stands_and_leaves_other_texts_alone() -> None:
    redactor = Redactor()
    assert redactor.settings({"ssl.key.password": "abc"}) == {"ssl.key.password": HIDDEN}
    assert redactor.text("abcdef") == "abcdef"


@pytest.mark.parametrize("secret", ['pa"ss\\word', "pässwörd", "line\tand more", '"quoted"'])
def test_secrets_are_found_in_json(secret: str) -> None:
    """Most parts of a bundle are JSON, and so are logs; both escape some characters."""
    redactor = Redactor()
    redactor.learn([secret])
    found = {"a": f"with {secret}."}
    for text in (json.dumps(found), json.dumps(found, ensure_ascii=False), secret):
        shown = redactor.text(text)
        assert HIDDEN in shown
        assert not any(part in shown for part in (secret, json.dumps(secret)[1:-1]))


@pytest.mark.parametrize(("text", "expected"), [
    (f"before\n{KEY}\nafter", f"before\n{HIDDEN}\nafter"), (KEY[:40], HIDDEN),
    ("Authorization: Bearer abcdefgh12345678", f"Authorization: Bearer {HIDDEN}"),
    ("token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln end", f"token {HIDDEN} end"),
    ('password="x y" more', f"password={HIDDEN} more"),
    ("ssl.key.password=abc, next", f"ssl.key.password={HIDDEN}, next"),
    ("user_bob=abc;", f"user_bob={HIDDEN};"), ("'secret': 'abc'", f"'secret': {HIDDEN}"),
    ("two coffees for table 7", "two coffees for table 7"),
])
def test_forms_of_secrets(text: str, expected: str) -> None:
    assert Redactor().text(text) == expected
