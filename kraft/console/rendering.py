"""Templates: every value is escaped, and a name that is missing is an error."""

import json
import re
from functools import cache
from html import unescape
from importlib import resources
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from kraft.console.clock import duration_text, moment_text, time_text
from kraft.console.visits import Page, Visit
from kraft.console.why.brokers import size_text
from kraft.console.why.finding import count_of

NAVIGATION: Final = (
    ("/", "Overview"), ("/why", "Why"), ("/brokers", "Brokers"), ("/topics", "Topics"), ("/groups", "Groups"),
    ("/clients", "Clients"), ("/transactions", "Transactions"), ("/quorum", "Quorum"), ("/timeline", "Time line"),
    ("/metadata", "Past"), ("/configs", "Settings"), ("/quotas", "Quotas"), ("/acls", "Access"),
)
TAG: Final = re.compile(r"</?[a-zA-Z][^<>]*>")
STATIC: Final = {"console.css": "text/css; charset=utf-8", "console.js": "text/javascript; charset=utf-8",
                 "icon.svg": "image/svg+xml"}


@cache
def environment() -> Environment:
    """Return the templates of the package."""
    found = Environment(loader=PackageLoader("kraft.console", "templates"), autoescape=True, undefined=StrictUndefined,
                        trim_blocks=True, lstrip_blocks=True, auto_reload=False)
    found.filters |= {"size": size_text, "time": time_text, "moment": moment_text, "plain": _plain,
                      "duration": duration_text, "segment": _segment,
                      "counted": count_of, "prose": _prose,
                      "number": lambda value: "-" if value is None else f"{value:,}",
                      "ids": lambda values: ", ".join(map(str, values)) or "none"}
    return found


def _plain(value: object) -> str:
    """Return a value of the metadata as JSON writes it, a text without quotes."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _prose(text: str) -> str:
    """Return a description without the HTML that Apache Kafka's brokers write into it."""
    return " ".join(unescape(TAG.sub(" ", text)).split()) if "<" in text or "&" in text else text


def _segment(text: object) -> str:
    """Return a text as one part of an address."""
    return quote(str(text), safe="")


def static(name: str) -> bytes:
    """Return a file of the package."""
    return resources.files("kraft.console").joinpath("static", name).read_bytes()


def render(page: Page, visit: Visit, path: str) -> str:
    """Return a page as HTML."""
    session, options = visit.session, visit.console.options
    notices, values = [], dict(page.values)
    if session is not None:
        notices, session.notices = session.notices, []
    shared: dict[str, Any] = {
        "navigation": NAVIGATION, "path": path, "query": visit.query, "bootstrap": options.bootstrap,
        "allow_changes": options.allow_changes, "may_change": visit.may_change, "notices": notices,
        "user": session.name if session is not None else "", "token": session.token if session is not None else "",
        "refresh": 0, "with_query": lambda **changes: _with_query(visit, path, changes),
    }
    return environment().get_template(page.template).render(shared | values)


def _with_query(visit: Visit, path: str, changes: dict[str, object]) -> str:
    """Return the address of this page with other arguments; None removes one."""
    found = {**visit.query, **{name: str(value) for name, value in changes.items() if value is not None}}
    for name, value in changes.items():
        if value is None:
            found.pop(name, None)
    return f"{quote(path)}?{urlencode(found)}" if found else quote(path)
