"""One request of a browser: its arguments, its session and its connections."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kraft.client import Cluster
from kraft.client.security import PLAINTEXT, Security
from kraft.console.recent import Recent
from kraft.console.sessions import Session, Sessions
from kraft.console.sources import Sources
from kraft_native.base.errors import InvalidArgumentError

NUMBER_DIGITS_MAX: Final = 18


@dataclass(slots=True)
class Options:
    """Settings of the console. `hosts`: names under which browsers may reach it, without ports. `decoders`: further
    decoders of keys and values, which return None for bytes that they cannot read."""

    bootstrap: str
    timeout: float = 3.0
    security: Security = PLAINTEXT
    allow_changes: bool = False
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")
    decoders: Mapping[str, Callable[[bytes], str | None]] = field(default_factory=dict)


@dataclass(slots=True)
class Console:
    """Parts that all visits share."""

    options: Options
    sources: Sources
    sessions: Sessions = field(default_factory=Sessions)
    recent: Recent = field(default_factory=Recent)


class Page(NamedTuple):
    """Answer of a page: the template and its values. `status` is that of HTTP."""

    template: str
    values: Mapping[str, Any]
    status: int = 200


class Redirect(NamedTuple):
    """Answer that leads to another page, after a change."""

    to: str
    session: Session | None = None


class NotFoundError(Exception):
    """There is no such page or thing; the text names it."""


class ForbiddenError(Exception):
    """The visitor may not do that; the text says why."""


@dataclass(slots=True)
class Visit:
    """One request. `path` has the parts of the address that a route names."""

    console: Console
    path: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)
    session: Session | None = None

    @property
    def security(self) -> Security:
        """Security of this visitor's connections: those of the login, else the console's own."""
        if self.session is not None and self.session.security is not None:
            return self.session.security
        return self.console.options.security

    @property
    def identity(self) -> str:
        """Key of this visitor's share of the cache: values read as one user are not shown to another."""
        return "" if self.session is None or self.session.security is None else self.session.session_id

    def cluster(self) -> Cluster:
        """Return new connections, so that the state of a connection is that of the cluster now."""
        options = self.console.options
        return Cluster(options.bootstrap, timeout=options.timeout, security=self.security, client_id="kraft-console")

    def number(self, name: str, default: int) -> int:
        """Return a number of the query; raises `InvalidArgumentError` for a text that is none."""
        found = self.optional_number(name)
        return default if found is None else found

    def optional_number(self, name: str) -> int | None:
        """Return a number of the query; None when it is missing or empty."""
        text = self.query.get(name, "").strip()
        if not text:
            return None
        if not text.isascii() or not text.isdecimal() or len(text) > NUMBER_DIGITS_MAX:
            raise InvalidArgumentError(f"{name}: {text[:40]!r} is not a number from 0 on")
        return int(text)

    def part(self, name: str) -> int:
        """Return a number of the path; raises `NotFoundError` for a text that is none."""
        text = self.path[name]
        if not text.isascii() or not text.isdecimal() or len(text) > NUMBER_DIGITS_MAX:
            raise NotFoundError(f"{name} {text[:40]!r}")
        return int(text)

    def check_changes(self) -> Session:
        """Return the session that may change the cluster. Raises `ForbiddenError` when none may."""
        if not self.console.options.allow_changes:
            raise ForbiddenError("This console only reads. Start it with --allow-changes to change the cluster.")
        if self.session is None or not self.may_change:
            raise ForbiddenError("Log in first: changes are made with your own credentials.")
        return self.session

    @property
    def may_change(self) -> bool:
        """Return whether this visitor may send changes. On a cluster without logins every session may."""
        if not self.console.options.allow_changes or self.session is None:
            return False
        return self.session.security is not None
