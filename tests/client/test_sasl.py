"""SASL as a client: SCRAM against the vectors of RFC 7677, and servers that are not to be trusted."""

import pytest

from kraft.client.sasl import SaslError, authenticate
from kraft.security.sasl.client import SaslLogin

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = ("c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
         "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
VERIFIER = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def run(*answers: str, mechanism: str = "SCRAM-SHA-256", user: str = "user") -> list[str]:
    """Run the exchange against these answers; return what the client sent."""
    sent: list[str] = []
    left = list(answers)

    def exchange(message: bytes) -> bytes:
        sent.append(message.decode())
        return left.pop(0).encode()

    authenticate(SaslLogin(mechanism, user, "pencil"), exchange, NONCE)
    return sent


def test_the_exchange_of_the_specification() -> None:
    assert run(FIRST, VERIFIER) == [f"n,,n=user,r={NONCE}", PROOF]


def test_plain_and_names_with_commas() -> None:
    assert run("", mechanism="PLAIN", user="é") == ["\0é\0pencil"]
    with pytest.raises(IndexError):
        run(user="a,=b")


@pytest.mark.parametrize(("answers", "text"), [
    (("r=other,s=AAAA,i=4096",), "nonce"), ((FIRST.replace("4096", "1"),), "1 iterations"),
    ((FIRST.replace("4096", "99999999"),), "99,999,999 iterations"), ((FIRST.replace("i=4096", ""),), "cannot be read"),
    ((FIRST, "v=AAAA"), "does not know the password"), ((FIRST, "e=invalid-proof"), "invalid-proof"),
    ((FIRST, ""), "either"),
])
def test_a_server_that_is_not_to_be_trusted(answers: tuple[str, ...], text: str) -> None:
    with pytest.raises(SaslError, match=text):
        run(*answers)
