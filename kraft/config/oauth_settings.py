"""Settings of OAUTHBEARER (KIP-255, KIP-768, KIP-1258): what a listener accepts, and where a client's tokens come from.

A listener verifies signed tokens, with keys from `sasl.oauthbearer.jwks.endpoint.url`. It accepts unsecured tokens only
where its login module has an option of Kafka's class for them (`UNSECURED_OPTIONS`). Kafka accepts them wherever
nothing else is configured.
"""

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from kraft.config.errors import InvalidConfigError
from kraft.config.jaas import Login
from kraft.config.setting import Value
from kraft.structs import immutable

OAUTHBEARER: Final = "OAUTHBEARER"
MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KEYS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a setting
URL_ENCODE: Final = "sasl.oauthbearer.header.urlencode"
ASSERTION: Final = "sasl.oauthbearer.assertion"
ASSERTION_FILE: Final = f"{ASSERTION}.file"
ASSERTION_KEY: Final = f"{ASSERTION}.private.key.file"
ASSERTION_TEMPLATE: Final = f"{ASSERTION}.template.file"
ASSERTION_ISSUER: Final = f"{ASSERTION}.claim.iss"
ASSERTION_CLAIMS: Final = ("aud", "iss", "sub")
ASSERTION_SETTINGS: Final = (
    ASSERTION_FILE, ASSERTION_KEY, ASSERTION_TEMPLATE, f"{ASSERTION}.algorithm", f"{ASSERTION}.private.key.passphrase",
    *(f"{ASSERTION}.claim.{name}" for name in (*ASSERTION_CLAIMS, "exp.seconds", "jti.include", "nbf.seconds")))
SCHEMES: Final = ("https", "http", "file")
UNSECURED_OPTIONS: Final = ("unsecuredValidatorPrincipalClaimName", "unsecuredValidatorScopeClaimName",
                            "unsecuredValidatorRequiredScope", "unsecuredValidatorAllowableClockSkewMs")
STRING_CLAIM: Final = "unsecuredLoginStringClaim_"
NUMBER_CLAIM: Final = "unsecuredLoginNumberClaim_"
LIST_CLAIM: Final = "unsecuredLoginListClaim_"
EXTENSIONS: Final = ("extension_", "unsecuredLoginExtension_")
SUBJECT: Final = "sub"
SCOPE: Final = "scope"
TIMEOUT_MS_DEFAULT: Final = 10_000
LIFETIME_SECONDS_DEFAULT: Final = 3_600

Read = Callable[[str], Value]
"""Returns the value in force of a setting, by Kafka's name."""


@immutable(kw_only=True)
class Provider:
    """Address of an identity provider, and how it is reached. `tls`: options `ssl.*` of the login module, by name."""

    url: str
    connect_ms: int = TIMEOUT_MS_DEFAULT
    read_ms: int = TIMEOUT_MS_DEFAULT
    retry_ms: int = 100
    retry_max_ms: int = 10_000
    tls: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> str | None:
        """Path of a file in place of an address; None for an address."""
        parts = urlsplit(self.url)
        return parts.path if parts.scheme == "file" else None

    def __repr__(self) -> str:
        return f"Provider({self.url!r})"


@immutable(kw_only=True)
class TokenRules:
    """Rules for the tokens of a listener's clients.

    - `keys`: where the keys of signed tokens are; None: tokens are unsecured.
    - `audiences`: one of them must be named; none given: any. `issuer` likewise.
    - `skew_ms`: tolerated difference of the clocks.
    - `scopes`: all of them must be named.
    """

    keys: Provider | None = None
    refresh_ms: int = 3_600_000
    audiences: tuple[str, ...] = ()
    issuer: str = ""
    skew_ms: int = 30_000
    scope_claim: str = SCOPE
    subject_claim: str = SUBJECT
    scopes: tuple[str, ...] = ()


@immutable(kw_only=True)
class Assertion:
    """Token by which a client proves its identity to a provider, in place of a secret (RFC 7523, 2.2).

    It is in `file`, or else signed with the key in `key_file`. Its fields come from `claims`, from the JSON object in
    `template_file` (`header`, `payload`), and from the clock; the last one that has a field counts. Times are seconds
    after and before the present. `has_id`: each has an id of its own, `jti`.
    """

    file: str = ""
    key_file: str = ""
    passphrase: str = ""
    algorithm: str = "RS256"
    template_file: str = ""
    claims: tuple[tuple[str, str], ...] = ()
    lifetime_s: int = 300
    begun_s: int = 60
    has_id: bool = False

    def __repr__(self) -> str:
        return f"Assertion({self.file or self.key_file!r})"


@immutable(kw_only=True)
class TokenLogin:
    """Source of the tokens of this side's logins: a provider's address or file, or unsecured `claims`. `extensions` are
    sent beside the token. The provider knows this side by an `assertion`, else by `client_id` and `client_secret`."""

    provider: Provider | None = None
    client_id: str = ""
    client_secret: str = ""
    assertion: Assertion | None = None
    scope: str = ""
    encodes: bool = False
    """Encode client id and secret as in a URL before they are sent (RFC 6749, 2.3.1)."""
    claims: tuple[tuple[str, str | float | tuple[str, ...]], ...] = ()
    lifetime_s: int = LIFETIME_SECONDS_DEFAULT
    extensions: tuple[tuple[str, str], ...] = ()

    @property
    def user(self) -> str:
        """Name for messages; the token's subject is the user for the other side."""
        return self.client_id or str(dict(self.claims).get(SUBJECT, "")) or (self.provider.url if self.provider else "")

    def __repr__(self) -> str:
        return f"TokenLogin({self.user!r})"


def token_rules(key: str, login: Login, read: Read) -> TokenRules:
    """Return the rules of a listener whose login module is the value of `key`. Raise `InvalidConfigError` for settings
    that cannot work."""
    unsecured = [name for name in UNSECURED_OPTIONS if name in login.options]
    url = str(read(KEYS_URL) or "")
    if unsecured and url:
        raise InvalidConfigError(f"{key}: {unsecured[0]} accepts unsecured tokens, and {KEYS_URL} is for signed ones; "
                                 "give one of them")
    if unsecured:
        return _unsecured_rules(key, login.options)
    if not url:
        raise InvalidConfigError(f"{KEYS_URL}: is needed by {OAUTHBEARER}; unsecured tokens, which prove nothing, need "
                                 f'{UNSECURED_OPTIONS[0]}="{SUBJECT}" in {key}')
    return TokenRules(
        keys=_provider(KEYS_URL, url, login.options, read, "sasl.oauthbearer.jwks.endpoint.retry.backoff"),
        refresh_ms=_positive("sasl.oauthbearer.jwks.endpoint.refresh.ms", read),
        audiences=tuple(_list(read("sasl.oauthbearer.expected.audience"))),
        issuer=str(read("sasl.oauthbearer.expected.issuer") or ""),
        skew_ms=_positive("sasl.oauthbearer.clock.skew.seconds", read, least=0) * 1000,
        scope_claim=_name("sasl.oauthbearer.scope.claim.name", read),
        subject_claim=_name("sasl.oauthbearer.sub.claim.name", read))


def token_login(key: str, login: Login, read: Read) -> TokenLogin:
    """Return the source of tokens for logins at others. Raise `InvalidConfigError` without one."""
    options = login.options
    extensions = tuple((name.partition("_")[2], text) for name, text in options.items()
                       if name.startswith(EXTENSIONS))
    claims = tuple(_claims(key, options))
    if claims:
        if not dict(claims).get(options.get("unsecuredLoginPrincipalClaimName", SUBJECT)):
            raise InvalidConfigError(f"{key}: {STRING_CLAIM}{SUBJECT} is missing, the name of the user")
        lifetime = options.get("unsecuredLoginLifetimeSeconds", str(LIFETIME_SECONDS_DEFAULT))
        return TokenLogin(claims=claims, extensions=extensions,
                          lifetime_s=_integer(key, "unsecuredLoginLifetimeSeconds", lifetime, least=1))
    url = str(read(TOKEN_URL) or "")
    if not url:
        raise InvalidConfigError(f"{TOKEN_URL}: is needed by a login with {OAUTHBEARER}, with clientId and "
                                 f"clientSecret in {key}, or {ASSERTION}.*; or {STRING_CLAIM}{SUBJECT} there, for an "
                                 "unsecured token")
    provider = _provider(TOKEN_URL, url, options, read, "sasl.login.retry.backoff")
    client_id = str(read("sasl.oauthbearer.client.credentials.client.id") or options.get("clientId", ""))
    secret = str(read("sasl.oauthbearer.client.credentials.client.secret") or options.get("clientSecret", ""))
    assertion = _assertion(read)
    if provider.path is None and assertion is None and not (client_id and secret):
        raise InvalidConfigError(f"{key}: has no clientId or no clientSecret, which {TOKEN_URL} needs without "
                                 f"{ASSERTION_FILE} and {ASSERTION_ISSUER}")
    return TokenLogin(provider=provider, client_id=client_id, client_secret=secret, extensions=extensions,
                      assertion=assertion,
                      scope=str(read("sasl.oauthbearer.scope") or options.get("scope", "")),
                      encodes=bool(read(URL_ENCODE)))


def _assertion(read: Read) -> Assertion | None:
    """Return how a client proves its identity by an assertion; None where it does so by a secret. As in Kafka, a file
    comes first, then the issuer's claim decides whether one is signed here."""
    if file := str(read(ASSERTION_FILE) or ""):
        return Assertion(file=file)
    key_file, issuer = (str(read(name) or "") for name in (ASSERTION_KEY, ASSERTION_ISSUER))
    if not issuer and not key_file:
        return None
    for name, value in ((ASSERTION_KEY, key_file), (ASSERTION_ISSUER, issuer)):
        if not value:
            raise InvalidConfigError(f"{name}: is needed by an assertion that is signed here; {ASSERTION_FILE} names "
                                     "the file of another one")
    claims = ((name, str(read(f"{ASSERTION}.claim.{name}") or "")) for name in ASSERTION_CLAIMS)
    return Assertion(
        key_file=key_file, passphrase=str(read(f"{ASSERTION}.private.key.passphrase") or ""),
        algorithm=str(read(f"{ASSERTION}.algorithm")).upper(), template_file=str(read(ASSERTION_TEMPLATE) or ""),
        claims=tuple((name, text) for name, text in claims if text),
        lifetime_s=_positive(f"{ASSERTION}.claim.exp.seconds", read, least=0),
        begun_s=_positive(f"{ASSERTION}.claim.nbf.seconds", read, least=0),
        has_id=bool(read(f"{ASSERTION}.claim.jti.include")))


def _unsecured_rules(key: str, options: Mapping[str, str]) -> TokenRules:
    principal, scope, scopes, skew = (options.get(name, "").strip() for name in UNSECURED_OPTIONS)
    return TokenRules(subject_claim=principal or SUBJECT, scope_claim=scope or SCOPE, scopes=tuple(scopes.split()),
                      skew_ms=_integer(key, UNSECURED_OPTIONS[3], skew or "0", least=0))


def _provider(key: str, url: str, options: Mapping[str, str], read: Read, retry: str) -> Provider:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in SCHEMES and bool(parts.path if parts.scheme == "file" else parts.hostname)
        _port = parts.port
    except ValueError:
        is_usable = False
    if not is_usable or not url.isascii() or any(each <= " " for each in url):
        raise InvalidConfigError(f"{key}: {url!r} is not an address of {', '.join(f'{each}:' for each in SCHEMES)}")
    return Provider(url=url, connect_ms=_timeout("sasl.login.connect.timeout.ms", read),
                    read_ms=_timeout("sasl.login.read.timeout.ms", read),
                    retry_ms=_positive(f"{retry}.ms", read), retry_max_ms=_positive(f"{retry}.max.ms", read),
                    tls=tuple(sorted((name, text) for name, text in options.items() if name.startswith("ssl."))))


def _claims(key: str, options: Mapping[str, str]) -> list[tuple[str, str | float | tuple[str, ...]]]:
    found: list[tuple[str, str | float | tuple[str, ...]]] = []
    for name, text in options.items():
        if name.startswith(STRING_CLAIM):
            found.append((name.removeprefix(STRING_CLAIM), text))
        elif name.startswith(NUMBER_CLAIM):
            try:
                found.append((name.removeprefix(NUMBER_CLAIM), float(text)))
            except ValueError:
                raise InvalidConfigError(f"{key}: {name} is not a number") from None
        elif name.startswith(LIST_CLAIM):
            found.append((name.removeprefix(LIST_CLAIM), tuple(text[1:].split(text[0])) if len(text) > 1 else ()))
    return found


def _list(value: Value) -> list[str]:
    return value if isinstance(value, list) else []


def _name(name: str, read: Read) -> str:
    if not (text := str(read(name) or "").strip()):
        raise InvalidConfigError(f"{name}: is empty; it is the name of a claim")
    return text


def _timeout(name: str, read: Read) -> int:
    return TIMEOUT_MS_DEFAULT if read(name) is None else _positive(name, read)


def _positive(name: str, read: Read, *, least: int = 1) -> int:
    value = read(name)
    assert isinstance(value, int)
    if value < least:
        raise InvalidConfigError(f"{name}: {value} is below {least}")
    return value


def _integer(key: str, name: str, text: str, *, least: int) -> int:
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if value < least:
        raise InvalidConfigError(f"{key}: {name} is not a whole number of at least {least}")
    return value
