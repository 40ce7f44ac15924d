"""Text of `sasl.jaas.config`."""

import pytest

from kraft.config.errors import InvalidConfigError
from kraft.config.jaas import parse_login

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_login_with_users() -> None:
    login = parse_login("k", f"""{PLAIN} required
        username="admin" password='a b;=' // the node's own
        /* all
           others */ user_alice="x\\"y\\\\z\\tA\\101" user_b-1$=pa55.word ;""")
    assert login.module == PLAIN
    assert (login.username, login.password) == ("admin", "a b;=")
    assert login.users == {"alice": 'x"y\\z\tAA', "b-1$": "pa55.word"}
    assert "alice" not in repr(login)


@pytest.mark.parametrize(("text", "why"), [
    ("", "is not of the form"), (f"{PLAIN} required username=x", "is not of the form"),
    (f"{PLAIN};", "is not of the form"),
    ("= required;", "is not of the form"), (f"{PLAIN} needed username=x;", "required, requisite, sufficient, optional"),
    (f"{PLAIN} required username=x; {PLAIN} required username=y;", "more than one login module"),
    (f"{PLAIN} required username;", "option 1 is not NAME=VALUE"),
    (f"{PLAIN} required username=hush password=x y;", "option 3 is not NAME=VALUE"),
    (f'{PLAIN} required username=x password="hush;', "fits nowhere"),
    (f"{PLAIN} required username=x password=hu!sh;", "fits nowhere"),
    (f"{PLAIN} required password=hush password=hush;", "option password is given twice"),
])
def test_texts_that_are_refused_without_showing_a_secret(text: str, why: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"^listener.key: .*{why}") as error:
        parse_login("listener.key", text)
    assert "hu" not in str(error.value)
