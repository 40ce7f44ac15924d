"""`kraft top`: rates between two samples, and the plain forms of a report."""

import json

import pytest
from rich.console import Console

from kraft.cli import top_cluster, top_metrics
from kraft.cli.top import PARTS, drawn, print_report, show
from kraft.client.groups import Member
from tests.cli.nodes import Started, Tool

BEFORE = top_cluster.Sample(10.0, 1, {1: "a:1", 2: "b:1"}, {("t", 0): 1, ("t", 1): 2}, set(), {1: 2, 2: 2},
                            {("t", 0): 100, ("t", 1): 50}, {("t", 0): 1000, ("t", 1): 500}, {"g": {("t", 0): 80}})
NOW = top_cluster.Sample(12.0, 1, {1: "a:1", 2: "b:1"}, {("t", 0): 1, ("t", 1): 2, ("u", 0): 1}, {("t", 1)},
                         {1: 3, 2: 2}, {("t", 0): 300, ("t", 1): 40, ("u", 0): 9}, {("t", 0): 5000, ("t", 1): 100},
                         {"g": {("t", 0): 90, ("t", 1): 10}}, {"g": (Member("m", None, "c", "/h", (("t", 0),)),)},
                         {"g": "Stable"})
SCRAPE = """# TYPE kafka_network_requestmetrics_totaltimems histogram
kafka_network_requestmetrics_totaltimems_bucket{{request="Produce",listener="P",le="1.0"}} {0}
kafka_network_requestmetrics_totaltimems_bucket{{request="Produce",listener="P",le="2.0"}} {1}
kafka_network_requestmetrics_totaltimems_bucket{{request="Produce",listener="P",le="+Inf"}} {1}
# TYPE kafka_network_requestmetrics_requests counter
kafka_network_requestmetrics_requests_total{{request="Produce",listener="P"}} {1}
# TYPE process_cpu_seconds counter
process_cpu_seconds_total {2}
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 47000000
"""


def test_rates_of_brokers_and_topics() -> None:
    first, second = top_cluster.brokers(BEFORE, NOW)
    assert (first["controller"], first["leads"], first["replicas"], first["records_per_second"]) == (True, 2, 3, 100.0)
    assert first["bytes_per_second"] == 2000.0
    assert (second["under_replicated"], second["records_per_second"], second["bytes_per_second"]) == (1, 0.0, 0.0)
    assert [(row["topic"], row["partitions"], row["records_per_second"], row["bytes"])
            for row in top_cluster.topics(BEFORE, NOW)] == [("t", 2, 100.0, 5100), ("u", 1, 0.0, 0)]


def test_lag_and_rates_of_groups_and_clients() -> None:
    assert top_cluster.groups(BEFORE, NOW) == [{"group": "g", "state": "Stable", "members": 1, "partitions": 2,
                                                "lag": 240, "records_per_second": 5.0}]
    assert top_cluster.clients(BEFORE, NOW) == [{"client": "c", "host": "/h", "group": "g", "partitions": 1, "lag": 210,
                                                 "records_per_second": 5.0}]


def test_figures_of_a_node() -> None:
    before = top_metrics.parse(SCRAPE.format(10, 10, 1.0), 10.0)
    row = top_metrics.node("a:9404", before, top_metrics.parse(SCRAPE.format(100, 210, 2.0), 12.0))
    assert (row["requests_per_second"], row["processor_percent"]) == (100.0, 50.0)
    assert (row["produce_p99_ms"], row["fetch_p99_ms"]) == (2.0, None)
    assert row["memory_bytes"] == 47_000_000


@pytest.mark.parametrize(("before", "now", "expected"), [
    ({}, {}, None), ({1.0: 5}, {1.0: 5}, None), ({}, {1.0: 99, 2.0: 100, float("inf"): 100}, 1.0),
    ({}, {1.0: 98, 2.0: 100, float("inf"): 100}, 2.0), ({}, {1.0: 0, float("inf"): 100}, 1.0),
])
def test_a_percentile_between_two_scrapes(before: dict[float, float], now: dict[float, float],
                                          expected: float | None) -> None:
    assert top_metrics.quantile(before, now) == expected


def test_one_interval_of_a_cluster(node: Started, tool: Tool) -> None:
    tool.json("topics", "create", "top-1", "--partitions", 2)
    report, = tool.json("top", "--once", "--interval", "0.1")
    assert set(report) == {"seconds", *PARTS}
    assert report["brokers"][0]["controller"] is True
    assert {row["topic"]: row["partitions"] for row in report["topics"]}["top-1"] == 2
    code, out, complaints = tool.run("top", "--once", "--interval", "0.1", "--rows", "1")
    assert (code, complaints) == (0, "")
    assert "brokers\n" in out and "RECORDS/S" in out


def test_a_report_as_tables_and_on_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    report = {"seconds": 2.0, "nodes": [], "brokers": top_cluster.brokers(BEFORE, NOW),
              "topics": [{**row, "topic": f"[red]{row['topic']}"} for row in top_cluster.topics(BEFORE, NOW)],
              "groups": top_cluster.groups(BEFORE, NOW), "clients": top_cluster.clients(BEFORE, NOW)}
    print_report(json.loads(json.dumps(report)), 1)
    printed = capsys.readouterr().out
    assert "topics (1 of 2)" in printed and "nodes" not in printed
    Console(width=200).print(drawn(report, 5))
    assert "[red]t" in capsys.readouterr().out
    show(iter([report]), 5)         # into a pipe: nothing is drawn, and nothing fails
