"""Audit events as they are read back: which ones are wanted, and one line of text for each."""

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from kraft.security.audit.event import ALLOWED, AUTHENTICATION, DENIED, FAILED, REQUESTED, Event

DECISIONS: Final = (ALLOWED, DENIED, FAILED, REQUESTED)


class Seen(NamedTuple):
    """Facts of an event. `resources` are pairs of kind and name. `offsets` are ranges in the metadata log. `times` is
    the number of occurrences that the event reports."""

    event: Event
    time_ms: int
    uid: str
    decision: str
    principal: str
    address: str
    client_id: str
    api: str
    resources: tuple[tuple[str, str], ...]
    offsets: tuple[tuple[int, int], ...]
    error: str
    times: int

    def caused(self, offset: int) -> bool:
        """Return whether the event's request wrote that record of the metadata log."""
        return any(first <= offset <= last for first, last in self.offsets)


class Wanted(NamedTuple):
    """Choice of events; None: all. `principal` may omit the kind, `resource` may be `topic:orders` or a name."""

    principal: str | None = None
    address: str | None = None
    api: str | None = None
    resource: str | None = None
    decision: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    offset: int | None = None

    def includes(self, seen: Seen) -> bool:
        """Return whether an event is wanted."""
        return (self.principal in (None, seen.principal, seen.principal.partition(":")[2])
                and self.address in (None, seen.address)
                and (self.api is None or self.api.lower() == seen.api.lower())
                and self.decision in (None, seen.decision)
                and (self.since_ms is None or seen.time_ms >= self.since_ms)
                and (self.until_ms is None or seen.time_ms <= self.until_ms)
                and (self.offset is None or seen.caused(self.offset))
                and (self.resource is None or any(self.resource in (name, f"{kind}:{name}")
                                                  for kind, name in seen.resources)))


def parse(line: str | bytes) -> Seen | None:
    """Return the event of a line; None for a line that is none, such as one that was cut."""
    try:
        event = json.loads(line)
        return _seen(event) if isinstance(event, dict) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _seen(event: Event) -> Seen:
    unmapped: dict[str, Any] = event.get("unmapped", {})
    actor = event.get("actor", {})
    user = event["user"] if event["class_uid"] == AUTHENTICATION else actor.get("user", {})
    login = f"login by {event['auth_protocol']}" if "auth_protocol" in event else event["class_name"]
    api = event.get("api", {}).get("operation", login)
    return Seen(
        event=event, time_ms=int(event["time"]), uid=str(event["metadata"]["uid"]),
        decision=str(unmapped.get("decision", event.get("status", "unknown"))),
        principal=str(user.get("uid", "")), address=str(event.get("src_endpoint", {}).get("ip", "")),
        client_id=str(actor.get("app_name", "")), api=str(api),
        resources=tuple((str(each["type"]), str(each["name"])) for each in event.get("resources", ())),
        offsets=tuple((int(first), int(last)) for first, last in unmapped.get("metadata_offsets", ())),
        error=str(event.get("status_code", event.get("status_detail", ""))), times=int(event.get("count", 1)))


def resources_text(seen: Seen) -> str:
    """Return what an event names, in words."""
    labels = {(each["type"], each["name"]): each.get("labels", []) for each in seen.event.get("resources", ())}
    texts = [f"{kind} {name}" + (f" ({', '.join(map(str, labels[kind, name]))})" if labels[kind, name] else "")
             for kind, name in seen.resources]
    more = ["..."] if seen.event.get("unmapped", {}).get("resources_cut") else []
    return ", ".join([*texts, *more])


def line_text(seen: Seen, time: str) -> str:
    """Return an event as a line; `time` is its time in words."""
    parts = [time, f"{seen.decision:<9}", seen.principal or "-", seen.address or "-", seen.api]
    if text := resources_text(seen):
        parts.append(text)
    if seen.event.get("message"):
        parts.append(str(seen.event["message"]))
    if seen.error:
        parts.append(seen.error)
    if seen.times > 1:
        parts.append(f"{seen.times} times")
    if seen.offsets:
        parts.append(f"metadata {ranges_text(seen.offsets)}")
    return "  ".join(parts)


def ranges_text(offsets: Iterable[tuple[int, int]]) -> str:
    """Return ranges of offsets in words."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in offsets)
