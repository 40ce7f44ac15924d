"""Pages of the metadata: the quorum, the time line, the past."""

from kraft.client import state
from kraft.console.clock import now_ms
from kraft.console.parts import attempt
from kraft.console.sources import Moment, Recordings
from kraft.console.state.past import parse_moment, past
from kraft.console.state.timeline import Elections, merged
from kraft.console.visits import Page, Visit

ENTRIES = 2_000
COUNTS = (100, 200, 500)


def quorum(visit: Visit) -> Page:
    """The metadata quorum, and what the controllers explain."""
    with visit.cluster() as cluster:
        found = attempt(lambda: state.quorum(cluster))
        answers = attempt(lambda: visit.console.sources.about_quorum(cluster))
        features = attempt(lambda: state.features(cluster))
    return Page("quorum.html", {"found": found, "answers": answers, "features": features, "now_ms": now_ms(),
                                "refresh": 5})


def timeline(visit: Visit) -> Page:
    """Elections and in-sync replicas of all nodes on one time line."""
    topic, source = visit.query.get("topic", "").strip(), visit.query.get("source", "").strip()
    count = min(max(visit.number("count", COUNTS[0]), 1), COUNTS[-1])
    elections = Elections()
    with visit.cluster() as cluster:
        recordings = attempt(lambda: visit.console.sources.recordings(cluster, ENTRIES))
        logged = attempt(lambda: visit.console.sources.image(cluster, Moment(), elections).offset)
    entries = recordings.otherwise(Recordings()).entries
    events = merged(entries, elections.events, topic=topic, source=source, count=count)
    sources = sorted({f"node {each.node_id}" for each in entries}) + (["metadata log"] if elections.events else [])
    return Page("timeline.html", {"events": events, "recordings": recordings, "logged": logged, "topic": topic,
                                  "source": source, "sources": sources, "count": count, "counts": COUNTS})


def metadata(visit: Visit) -> Page:
    """The metadata at a moment, and the difference to now."""
    moment = parse_moment(visit.query.get("at", ""))
    with visit.cluster() as cluster:
        found = past(cluster, visit.console.sources, moment)
    return Page("metadata.html", {"found": found, "at": visit.query.get("at", "")})
