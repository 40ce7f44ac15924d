"""`--add-scram`: the first credentials of a cluster."""

import base64

import pytest

from kraft.config.errors import InvalidConfigError
from kraft.security.sasl.first_credentials import first_credential
from kraft.security.sasl.scram import salted_password

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def draw() -> bytes:
    return SALT


def test_a_password_and_its_salted_form_make_the_same_credential() -> None:
    salted = base64.b64encode(salted_password("sha256", "pencil", SALT, 8_192)).decode()
    first = first_credential('SCRAM-SHA-256=[name=alice,password="pencil",iterations=8192]', draw)
    assert (first.name, first.mechanism, first.salt, first.iterations) == ("alice", 1, SALT, 8_192)
    assert first == first_credential(f"SCRAM-SHA-256=[name=alice,iterations=8192,saltedpassword={salted},"
                                     "salt=W22ZaJ0SNY7soEsUEjb6gQ==]", lambda: b"another")


def test_the_least_that_is_needed() -> None:
    record = first_credential("SCRAM-SHA-512=[name=bob,password=a=b]", draw)
    assert (record.name, record.mechanism, record.iterations, len(record.stored_key)) == ("bob", 2, 4_096, 64)


@pytest.mark.parametrize(("text", "why"), [
    ("", "the mechanism before ="), ("SCRAM-SHA-1=[name=a,password=hush]", "SCRAM-SHA-256, SCRAM-SHA-512"),
    ("SCRAM-SHA-256", "is not of the form"), ("SCRAM-SHA-256=name=a,password=hush", "is not of the form"),
    ("SCRAM-SHA-256=[password=hush]", "name is missing"), ("SCRAM-SHA-256=[name=a]", "password or saltedpassword"),
    ("SCRAM-SHA-256=[name=a,password=hush,hush]", "is not NAME=VALUE"),
    ("SCRAM-SHA-256=[name=a,passwort=hush]", "is not NAME=VALUE"),
    ("SCRAM-SHA-256=[name=a,saltedpassword=aHVzaA==]", "needs its salt"),
    ("SCRAM-SHA-256=[name=a,password=hush,salt=hush!]", "salt is not base64"),
    ("SCRAM-SHA-256=[name=a,password=hush,iterations=4095]", "in 4096 to 16384"),
    ("SCRAM-SHA-256=[name=a,password=hush,iterations=16385]", "in 4096 to 16384"),
    ("SCRAM-SHA-256=[name=a,password=hush,iterations=many]", "in 4096 to 16384"),
])
def test_arguments_that_are_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"^--add-scram: .*{why}") as error:
        first_credential(text, draw)
    assert "hush" not in str(error.value)
