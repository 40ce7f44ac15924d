"""Login and logout. Only a console that allows changes has them."""

from dataclasses import replace
from typing import Final

from kraft.client import AuthenticationError, Cluster
from kraft.client.security import Security
from kraft.console.visits import ForbiddenError, Page, Redirect, Visit
from kraft_native.base.errors import InvalidArgumentError

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
TEXT_MAX: Final = 1_024


def local_path(text: str) -> str:
    """Return a path of this console; `/` for anything that leads elsewhere."""
    is_local = text.startswith("/") and not text.startswith(("//", "/\\")) and not any(ord(each) < 33 for each in text)
    return text if is_local else "/"


def login_page(visit: Visit, problem: str = "", status: int = 200) -> Page:
    """The form. `session` of the visit exists: the form carries its token."""
    if not visit.console.options.allow_changes:
        raise ForbiddenError("This console only reads, so it has no logins.")
    security = visit.console.options.security
    mechanism = security.mechanism if security.mechanism in MECHANISMS else MECHANISMS[0]
    return Page("login.html", {"problem": problem, "mechanisms": MECHANISMS, "mechanism": mechanism,
                               "needs_password": needs_password(security), "refused": refusal(security),
                               "to": local_path(visit.query.get("to", visit.form.get("to", "/")))}, status)


def needs_password(security: Security) -> bool:
    """Return whether the cluster's listener has logins by password."""
    return bool(security.mechanism)


def refusal(security: Security) -> str:
    """Return why no visitor can log in; empty when one can. A certificate is the console's own identity, and no
    visitor's."""
    if security.has_certificate and not security.mechanism:
        return ("The listener identifies clients by certificates only, and the certificate is the console's: use a "
                "listener with SASL for changes.")
    return ""


def login(visit: Visit) -> Page | Redirect:
    """Check the visitor's credentials at the cluster, and begin a session with them."""
    options = visit.console.options
    if not options.allow_changes or refusal(options.security):
        raise ForbiddenError(refusal(options.security) or "This console only reads, so it has no logins.")
    security, name = options.security, "anonymous"
    if needs_password(security):
        try:
            security, name = _credentials(visit)
            with Cluster(options.bootstrap, timeout=options.timeout, security=security) as cluster:
                cluster.check_access()
        except (AuthenticationError, InvalidArgumentError) as error:
            return login_page(visit, str(error), 403)
    if visit.session is not None:
        visit.console.sessions.end(visit.session)       # the id of a login is never the one of before
    session = visit.console.sessions.begin(security, name)
    return Redirect(local_path(visit.form.get("to", "/")), session)


def _credentials(visit: Visit) -> tuple[Security, str]:
    name, password = visit.form.get("username", ""), visit.form.get("password", "")
    mechanism = visit.form.get("mechanism", "")
    if mechanism not in MECHANISMS:
        raise InvalidArgumentError(f"mechanism: {mechanism[:40]!r} is not one of {', '.join(MECHANISMS)}")
    if not name or not password or len(name) > TEXT_MAX or len(password) > TEXT_MAX:
        raise InvalidArgumentError(f"user and password: each has 1 to {TEXT_MAX} characters")
    return replace(visit.console.options.security, mechanism=mechanism, username=name, password=password,
                   by_token=False, token=None), name


def logout(visit: Visit) -> Redirect:
    """End the session."""
    if visit.session is not None:
        visit.console.sessions.end(visit.session)
    return Redirect("/", visit.console.sessions.begin())
