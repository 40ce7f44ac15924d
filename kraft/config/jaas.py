"""Text of `sasl.jaas.config`: one login module with its options, in the grammar of Kafka's parser.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="..." user_alice="...";

Values have quotes unless they consist of letters, digits and `. - _ $`. Java's comments are allowed.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from kraft.config.errors import InvalidConfigError
from kraft.structs import immutable

FLAGS: Final = ("required", "requisite", "sufficient", "optional")
USER_PREFIX: Final = "user_"
_TOKEN = re.compile(r"""\s+|//[^\n]*|/\*.*?\*/
    |(?P<quoted>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<word>[\w.$-]+)|(?P<mark>[=;])""", re.DOTALL | re.VERBOSE)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}


@immutable
class Login:
    """A login module's class and its options, which may be secrets: neither is shown."""

    module: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Login(module={self.module!r})"

    @property
    def username(self) -> str:
        return self.options.get("username", "")

    @property
    def password(self) -> str:
        return self.options.get("password", "")

    @property
    def by_token(self) -> bool:
        """Return whether user and password are the id and the secret of a delegation token (KIP-48)."""
        return self.options.get("tokenauth", "").lower() == "true" and self.module.endswith(".ScramLoginModule")

    @property
    def users(self) -> dict[str, str]:
        """Passwords by user, of the options `user_NAME`."""
        return {name.removeprefix(USER_PREFIX): text for name, text in self.options.items()
                if name.startswith(USER_PREFIX)}


def parse_login(key: str, text: str) -> Login:
    """Parse the value of the setting `key`. Raise `InvalidConfigError`, which shows no part of a value, otherwise."""
    tokens = list(_tokens(key, text))
    if len(tokens) < 3 or tokens[0][0] == "=" or tokens[-1][0] != ";":
        raise InvalidConfigError(f'{key}: is not of the form MODULE required NAME="VALUE" ... ;')
    module, flag = tokens[0][1], tokens[1][1]
    if flag.lower() not in FLAGS:
        raise InvalidConfigError(f"{key}: the word behind the module is not one of {', '.join(FLAGS)}")
    options: dict[str, str] = {}
    body = tokens[2:-1]
    if any(kind == ";" for kind, _ in body):
        raise InvalidConfigError(f"{key}: has more than one login module")
    for at in range(0, len(body), 3):
        part = body[at:at + 3]
        if [kind for kind, _ in part] not in (["word", "=", "word"], ["word", "=", "quoted"]):
            raise InvalidConfigError(f"{key}: option {at // 3 + 1} is not NAME=VALUE; a value with other characters "
                                     "than letters, digits and . - _ $ needs quotes")
        if part[0][1] in options:
            raise InvalidConfigError(f"{key}: option {part[0][1]} is given twice")
        options[part[0][1]] = part[2][1]
    return Login(module, options)


def _tokens(key: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind of each token, which is itself for a mark, and its text without quotes."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise InvalidConfigError(f"{key}: character {at + 1} fits nowhere; quotes are missing around a value, or "
                                     "the end of one")
        at = found.end()
        if found["quoted"] is not None:
            yield "quoted", _ESCAPE.sub(_unescaped, found["quoted"][1:-1])
        elif found["word"] is not None:
            yield "word", found["word"]
        elif found["mark"] is not None:
            yield found["mark"], found["mark"]


def _unescaped(found: re.Match[str]) -> str:
    text = found[1]
    return chr(int(text, 8)) if text[0] in "01234567" else _ESCAPED.get(text, text)
