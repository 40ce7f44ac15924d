"""Secrets removed from what is shown or passed on: values of settings, and the same values inside of texts.

A secret is the value of a setting whose type is a password, of one that no table knows, or of a property whose name
says so. In texts every occurrence of a known secret is replaced, and what has the form of one: private keys in PEM,
options of login modules, bearer tokens and signed tokens.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from kraft.config.jaas import USER_PREFIX, parse_login
from kraft.config.tables import broker_settings
from kraft_native.base.errors import KraftError

HIDDEN: Final = "(hidden)"
SECRET_CHARACTERS_MIN: Final = 4
"""Shorter values are not searched in texts: they occur everywhere."""
_SECRET_NAME: Final = re.compile(
    r"password|passphrase|secret|jaas\.config|credential|keystore\.key$|ssl\.key\.pem$"
    r"|assertion\.(?!.*(file|algorithm))|token$|api[._-]?key", re.IGNORECASE)
_PREFIX: Final = re.compile(r"listener\.name\.[^.]+\.(?:(?:plain|scram-sha-256|scram-sha-512|oauthbearer)\.)?")
_FORMS: Final = (
    (re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL),
     HIDDEN),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"), HIDDEN),
    (re.compile(r"(?i)\b(bearer|basic) +[\w.~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    (re.compile(r'(?i)\b([\w.]*(?:password|passphrase|secret|token))(["\']?\s*[=:]\s*)'
                r'("[^"]*"|\'[^\']*\'|[^\s,;"\']+)'),
     rf"\1\2{HIDDEN}"),
    (re.compile(r'(?i)\b(user_\w+)(\s*=\s*)("[^"]*"|[^\s,;]+)'), rf"\1\2{HIDDEN}"),
)


def is_secret(name: str) -> bool:
    """Return whether the name of a client's property says that its value is a secret."""
    return _SECRET_NAME.search(name) is not None


def is_hidden(name: str) -> bool:
    """Return whether the value of a node's setting must not be shown: a secret, or a setting that is unknown."""
    setting = broker_settings().get(_PREFIX.sub("", name))
    return is_secret(name) or setting is None or setting.sensitive


class Redactor:
    """Remover of secrets, which it learns from the settings that it is given."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def learn(self, values: Iterable[str]) -> None:
        """Remember values that must not appear in any text."""
        for value in values:
            parts = [part.strip() for part in (value, *value.split("\n"))]
            self._known |= {form for part in parts
                            if len(part) >= SECRET_CHARACTERS_MIN and not part.startswith("-----")
                            for form in (part, _in_json(part, ascii_only=True), _in_json(part, ascii_only=False))}

    def settings(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return a node's settings with hidden values, and learn what they hide."""
        for name, value in texts.items():
            if is_secret(name) or ((setting := broker_settings().get(_PREFIX.sub("", name))) and setting.sensitive):
                self.learn((value, *_options_of(value)))
        return {name: HIDDEN if value and is_hidden(name) else self.text(value) for name, value in texts.items()}

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        for value in sorted(self._known, key=len, reverse=True):
            text = text.replace(value, HIDDEN)
        for pattern, replacement in _FORMS:
            text = pattern.sub(replacement, text)
        return text


def _in_json(text: str, *, ascii_only: bool) -> str:
    """Return the text as JSON has it between quotes, with or without escapes of letters beyond ASCII."""
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


def _options_of(value: str) -> list[str]:
    """Return the secret options of a login module; none for another text."""
    try:
        login = parse_login("", value)
    except KraftError:
        return []
    return [text for name, text in login.options.items() if is_secret(name) or name.startswith(USER_PREFIX)]
