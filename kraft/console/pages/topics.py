"""Pages of topics: the list, one topic, its records, the digests of its replicas."""

from typing import Final, cast

from kraft.client.configs import SOURCE_TOPIC, describe_configs
from kraft.client.partitions import EARLIEST, LATEST, list_offsets
from kraft.client.refusals import check
from kraft.console.clock import parse_time
from kraft.console.decoders import DECODERS, show
from kraft.console.pages.common import rows_of
from kraft.console.parts import attempt
from kraft.console.search import EVERYWHERE, Cursor, Query, search
from kraft.console.state.digests import BLOCK_OFFSETS, compare_replicas
from kraft.console.state.topics import Order, page_of, red_partitions, topic_detail
from kraft.console.visits import NotFoundError, Page, Visit
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.columns.search import HEADERS, KEYS, VALUES

ORDERS: Final = ("name", "partitions", "problems")
EXPLAINED_MAX: Final = 10
PARTITIONS_SHOWN: Final = 500
DIGEST_OFFSETS: Final = 100_000
WHERE: Final = {"all": EVERYWHERE, "key": KEYS, "value": VALUES, "header": HEADERS}


def topics(visit: Visit) -> Page:
    """One page of the topics."""
    order = visit.query.get("order", "name")
    if order not in ORDERS:
        raise InvalidArgumentError(f"order: {order[:40]!r} is not one of {', '.join(ORDERS)}")
    with visit.cluster() as cluster:
        rows = rows_of(visit, cluster)
    found = page_of(rows, words=visit.query.get("q", ""), number=visit.number("page", 1), order=cast("Order", order),
                    internal="internal" in visit.query, only_problems="problems" in visit.query)
    return Page("topics.html", {"found": found, "order": order, "orders": ORDERS, "refresh": 5})


def topic(visit: Visit) -> Page:
    """One topic: its partitions, its own settings, and why some of its partitions are red."""
    name = visit.path["topic"]
    with visit.cluster() as cluster:
        found = topic_detail(cluster, name)
        red = red_partitions(name, found.partitions)
        answers = attempt(lambda: visit.console.sources.about_partitions(cluster, red[:EXPLAINED_MAX]) if red else [])
        configs = attempt(lambda: [each for each in describe_configs(cluster, "topic", [name])[name]
                                   if each.config_source == SOURCE_TOPIC])
    number = max(1, visit.number("page", 1))
    shown = found.partitions[(number - 1) * PARTITIONS_SHOWN:number * PARTITIONS_SHOWN]
    return Page("topic.html", {"found": found, "shown": shown, "number": number, "answers": answers, "red": len(red),
                               "configs": configs, "size": PARTITIONS_SHOWN, "refresh": 5})


def records(visit: Visit) -> Page:
    """Records of a topic: one slice of a search."""
    name = visit.path["topic"]
    query, problem = _query(visit)
    where, decoder = visit.query.get("where", "all"), visit.query.get("decoder", "auto")
    others = visit.console.options.decoders
    values = {"topic": name, "where": where, "wheres": tuple(WHERE), "decoder": decoder,
              "decoders": (*DECODERS, *others), "key_decoder": visit.query.get("key_decoder", "auto"),
              "show": lambda data, decoder: show(data, decoder, others), "problem": problem, "found": None}
    if problem is None and ("search" in visit.query or "cursor" in visit.query):
        cursor = Cursor.parse(visit.query["cursor"]) if visit.query.get("cursor") else None
        with visit.cluster() as cluster:
            values["found"] = search(cluster, name, query, cursor)
    else:
        with visit.cluster() as cluster:
            check(f"topic {name}", cluster.metadata([name]).topics[0].error_code)
    return Page("records.html", values, 400 if problem else 200)


def _query(visit: Visit) -> tuple[Query, str | None]:
    """Return the search that the form describes, or what is wrong with it."""
    text, where = visit.query.get("text", ""), visit.query.get("where", "all")
    times: list[int | None] = []
    for name in ("from", "to"):
        given = visit.query.get(name, "").strip()
        moment = parse_time(given) if given else None
        if given and moment is None:
            return Query(), f"{name}: {given[:60]!r} is not a time such as 2026-01-31T09:00:00"
        times.append(moment)
    try:
        needle = bytes.fromhex(text) if "hex" in visit.query else text.encode()
        query = Query(needle, WHERE.get(where, EVERYWHERE), times[0], times[1], visit.optional_number("start"),
                      visit.optional_number("end"), visit.optional_number("partition"))
    except InvalidArgumentError as error:
        return Query(), str(error)
    except ValueError:
        return Query(), f"search: {text[:60]!r} is not hexadecimal"
    return query, None


def digests(visit: Visit) -> Page:
    """Digests of the replicas of one partition."""
    name, index = visit.path["topic"], visit.part("partition")
    with visit.cluster() as cluster:
        found = cluster.metadata([name]).topics[0]
        check(f"topic {name}", found.error_code)
        part = next((each for each in found.partitions if each.partition_index == index), None)
        if part is None:
            raise NotFoundError(f"partition {name}/{index}")
        key = (name, index)
        log_start = list_offsets(cluster, [found], {key: EARLIEST}).get(key, 0)
        log_end = list_offsets(cluster, [found], {key: LATEST}).get(key, 0)
        end = min(visit.number("end", log_end), log_end)
        start = min(max(visit.number("start", max(log_start, end - DIGEST_OFFSETS)), log_start), end)
        compared = compare_replicas(cluster, name, index, start, end, tuple(part.replica_nodes))
    return Page("digests.html", {"topic": name, "partition": index, "leader": part.leader_id, "compared": compared,
                                 "log_start": log_start, "log_end": log_end, "block": BLOCK_OFFSETS})
