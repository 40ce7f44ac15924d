"""Alert rules and dashboards: each expression parses, and each series and label that it names exists in the scrape of a
running node. `promtool` checks the rules too, where it is installed."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from kraft.client import Cluster
from kraft.client.connection import AuthenticationError, Connection, ConnectionFailedError
from kraft.client.security import Security
from kraft.client.topics import create_topic
from kraft.runtime.server_node import ServerNode
from tests.integration.admin import wait_until
from tests.runtime.metrics.test_http_server import get
from tests.runtime.metrics.test_scrape import fetch, produce
from tests.runtime.net.test_sasl import MODULE
from tests.runtime.nodes import config, with_node
from tests.tls.files import write_pem
from tools import dashboards
from tools.tree import ROOT

RULES = ROOT / "deploy" / "prometheus" / "kraft.rules.yml"
GROUPS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
BY_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus adds to every series."""
VARIABLES = {"$__rate_interval": "5m", "$job": "kraft", "$instance": ".*"}
Series = dict[str, list[dict[str, str]]]


def expressions() -> list[str]:
    found = [rule["expr"] for rule in ALERTS.values()]
    for each in dashboards.expressions():
        text = each
        for name, value in VARIABLES.items():
            text = text.replace(name, value)
        found.append(text)
    return found


def nodes_of(expression: Any) -> Iterator[Any]:
    """Yield an expression and all within it."""
    yield expression
    for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
        if (inner := getattr(expression, name, None)) is not None:
            yield from nodes_of(inner)
    for inner in getattr(expression, "args", ()):
        yield from nodes_of(inner)


def labels_of(expression: Any, series: Series) -> set[str]:
    """Return the labels that the result of an expression may have."""
    if isinstance(expression, promql_parser.AggregateExpr):
        return set() if expression.modifier is None else set(expression.modifier.labels)
    if isinstance(expression, promql_parser.VectorSelector):
        return BY_PROMETHEUS.union(*(series.get(expression.name, [])))
    inner = [getattr(expression, name, None) for name in ("expr", "lhs", "rhs", "vector_selector")]
    parts = [*filter(None, inner), *getattr(expression, "args", ())]
    return set().union(*(labels_of(each, series) for each in parts))


def faults(text: str, series: Series) -> Iterator[str]:
    """Yield what an expression names and no node has."""
    parsed = promql_parser.parse(text)
    for each in nodes_of(parsed):
        if isinstance(each, promql_parser.VectorSelector):
            if each.name not in series:
                yield f"{each.name} does not exist"
                continue
            for matcher in each.matchers.matchers:
                values = [labels.get(matcher.name) for labels in series[each.name]]
                if matcher.name not in BY_PROMETHEUS and values.count(None) == len(values):
                    yield f"{each.name} has no label {matcher.name}"
                elif matcher.name not in BY_PROMETHEUS and "Equal" in str(matcher.op) and matcher.value not in values:
                    yield f"{each.name} has no {matcher.name}={matcher.value}"
        elif isinstance(each, promql_parser.AggregateExpr) and each.modifier is not None:
            lost = set(each.modifier.labels) - labels_of(each.expr, series)
            if lost:
                yield f"{text}: no label {', '.join(sorted(lost))}"


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Series:
    """Return the series of a node that uses all features with series of their own, with the labels of each."""
    directory = tmp_path_factory.mktemp("deploy")
    write_pem(directory)
    settings = config(directory / "data", **{
        "listeners": "PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:0,TLS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener_security_protocol_map":
            "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,TLS:SSL,CONTROLLER:PLAINTEXT",
        "sasl_enabled_mechanisms": "PLAIN", "connection_failed_authentication_delay_ms": "1",
        "listener.name.login.plain.sasl.jaas.config": f'{MODULE} required user_bob="hush";',
        "listener.name.tls.ssl.keystore.type": "PEM",
        "listener.name.tls.ssl.keystore.location": f"{directory}/server.pem",
        "kraft_audit_file": str(directory / "audit.jsonl"), "kraft_metrics_listener": "127.0.0.1:0"})

    def work(cluster: Cluster, node: ServerNode) -> Series:
        create_topic(cluster, "events", partitions=1)
        produce(cluster, "events", [b"one"])
        produce(cluster, "events", [b"refused"], partition=7)
        fetch(cluster, "events")
        with pytest.raises(AuthenticationError):
            Connection("127.0.0.1", node.listeners["LOGIN"].port, timeout=10,
                       security=Security(mechanism="PLAIN", username="bob", password="wrong"))
        with suppress(ConnectionFailedError):      # no TLS
            Connection("127.0.0.1", node.listeners["TLS"].port, timeout=10).close()
        found: Series = {}

        def is_whole() -> bool:
            found.clear()
            found.update(scraped(get(node)[1]))
            return {"kafka_server_raft_metrics_commit_latency_avg", "kraft_tls_handshake_failures_total",
                    "kraft_connections_closed_total"} <= found.keys()

        wait_until(is_whole, "it has counted the clients", 20.0)
        return found

    found: Series = with_node(settings, work)
    return found


def scraped(text: str) -> Series:
    found: Series = {"up": [{}]}       # of Prometheus itself
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(dict(sample.labels))
    return found


def test_every_series_exists(series: Series) -> None:
    assert len(expressions()) > 80
    wrong = [f"{text}: {fault}" for text in expressions() for fault in faults(text, series)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("expression", "fault"), [
    ("kraft_redy == 0", "kraft_redy does not exist"),
    ('rate(kraft_connections_closed_total{why="peer"}[5m])', "has no label why"),
    ('kafka_network_requestmetrics_requests_total{request="Prodce"} > 1', "has no request=Prodce"),
    ("sum by (job, topic) (kraft_ready)", "no label topic"),
])
def test_a_wrong_expression_is_found(series: Series, expression: str, fault: str) -> None:
    assert any(fault in each for each in faults(expression, series))


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_is_explained(name: str, series: Series) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert anchor == name.lower()
    assert f"\n### {name}\n" in (ROOT / page).read_text()
    used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert used <= labels_of(promql_parser.parse(rule["expr"]), series)


def test_the_page_has_no_other_alerts() -> None:
    page = (ROOT / "docs" / "operate" / "alerts.md").read_text()
    assert sorted(re.findall(r"^### (\w+)$", page, re.MULTILINE)) == sorted(ALERTS)


def test_promtool_accepts_the_rules() -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("needs promtool")
    done = subprocess.run([program, "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


@pytest.mark.parametrize("uid", dashboards.DASHBOARDS)
def test_a_dashboard_is_what_the_table_says(uid: str) -> None:
    """`python -m tools.dashboards` writes it."""
    path: Path = dashboards.DIRECTORY / f"{uid}.json"
    assert path.read_text() == dashboards.text(uid)
    board = json.loads(path.read_text())
    panels = board["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    assert all(each["gridPos"]["x"] + each["gridPos"]["w"] <= dashboards.COLUMNS for each in panels)
    names = {each["name"] for each in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(panels)))
    assert used - {"__rate_interval"} <= names
    for row in dashboards.DASHBOARDS[uid][1]:
        assert row.title
        assert len({panel.title for panel in row.panels}) == len(row.panels)


def test_every_dashboard_has_its_table() -> None:
    assert sorted(path.stem for path in dashboards.DIRECTORY.glob("*.json")) == sorted(dashboards.DASHBOARDS)
