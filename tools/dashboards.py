"""`python -m tools.dashboards` writes the dashboards of `deploy/grafana` from the tables below.

A dashboard is a list of rows, a row a title and panels of equal width. `tests/test_deploy.py` compares the files with
the tables, and evaluates every expression.
"""

import json
import sys
from typing import Any, Final, NamedTuple

from tools.tree import ROOT

DIRECTORY: Final = ROOT / "deploy" / "grafana"
COLUMNS: Final = 24
HEIGHT: Final = 7
RATE: Final = "$__rate_interval"
NODE: Final = 'job="$job", instance=~"$instance"'
SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


class Panel(NamedTuple):
    """A graph, or with `is_number` a single value, of one or more (expression, legend) pairs."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    is_number: bool = False


class Row(NamedTuple):
    """Panels beside each other."""

    title: str
    panels: tuple[Panel, ...]


def number(title: str, expression: str, unit: str = "short") -> Panel:
    return Panel(title, unit, ((expression, ""),), is_number=True)


def by_node(title: str, unit: str, expression: str) -> Panel:
    return Panel(title, unit, ((expression, "{{instance}}"),))


def quantiles(stage: str, request: str) -> tuple[tuple[str, str], ...]:
    series = f'kafka_network_requestmetrics_{stage}_bucket{{{NODE}, request="{request}"}}'
    return tuple((f"histogram_quantile({q}, sum by (le) (rate({series}[{RATE}])))", f"p{100 * q:g}")
                 for q in (0.5, 0.99, 0.999))


CLUSTER: Final = (
    Row("Now", (
        number("Nodes that do not answer", 'count(up{job="$job"} == 0) or vector(0)'),
        number("Nodes that are not ready", 'count(kraft_ready{job="$job"} == 0) or vector(0)'),
        number("Active controllers", 'sum(kafka_controller_kafkacontroller_activecontrollercount{job="$job"})'),
        number("Partitions without a leader",
               'max(kafka_controller_kafkacontroller_offlinepartitionscount{job="$job"})'),
        number("Partitions below min.insync.replicas",
               'sum(kafka_server_replicamanager_underminisrpartitioncount{job="$job"})'),
        number("Partitions with replicas out of sync",
               'sum(kafka_server_replicamanager_underreplicatedpartitions{job="$job"})'),
    )),
    Row("Why nodes are not ready", (
        Panel("Reasons", "short", (('kraft_not_ready{job="$job"} == 1', "{{instance}} {{reason}}"),)),
        Panel("Brokers", "short", (
            ('max(kafka_controller_kafkacontroller_activebrokercount{job="$job"})', "serving"),
            ('max(kafka_controller_kafkacontroller_fencedbrokercount{job="$job"})', "fenced"))),
        by_node("Lease left", "s", 'kraft_broker_lease_remaining_seconds{job="$job"}'),
    )),
    Row("Load", (
        by_node("Records in", "rps",
                f"rate(kafka_server_brokertopicmetrics_alltopics_messagesin_total{{{NODE}}}[{RATE}])"),
        by_node("Bytes in", "Bps", f"rate(kafka_server_brokertopicmetrics_alltopics_bytesin_total{{{NODE}}}[{RATE}])"),
        by_node("Bytes to consumers", "Bps",
                f"rate(kafka_server_brokertopicmetrics_alltopics_bytesout_total{{{NODE}}}[{RATE}])"),
    )),
    Row("Topics", (
        Panel("Bytes in, ten largest", "Bps", ((
            f'topk(10, sum by (topic) (rate(kafka_server_brokertopicmetrics_bytesin_total{{job="$job"}}[{RATE}])))',
            "{{topic}}"),)),
        Panel("Bytes on disk, ten largest", "bytes", ((
            'topk(10, sum by (topic) (kafka_log_log_size{job="$job"}))', "{{topic}}"),)),
        Panel("Topics and partitions", "short", (
            ('max(kafka_controller_kafkacontroller_globaltopiccount{job="$job"})', "topics"),
            ('max(kafka_controller_kafkacontroller_globalpartitioncount{job="$job"})', "partitions"))),
    )),
    Row("Replication", (
        by_node("Leaders", "short", f"kafka_server_replicamanager_leadercount{{{NODE}}}"),
        by_node("Removals from the ISR", "cps",
                f"rate(kafka_server_replicamanager_isrshrinks_total{{{NODE}}}[{RATE}])"),
        Panel("Not led by the preferred replica", "short", ((
            'max(kafka_controller_kafkacontroller_preferredreplicaimbalancecount{job="$job"})', "partitions"),)),
    )),
    Row("Controllers", (
        by_node("Time of a commit", "ms", 'kafka_server_raft_metrics_commit_latency_avg{job="$job"}'),
        by_node("Epoch", "short", 'kafka_server_raft_metrics_current_epoch{job="$job"}'),
        Panel("Metadata not applied", "short", (('kraft_metadata_lag{job="$job"}', "{{instance}} {{role}}"),)),
    )),
    Row("Groups and transactions", (
        by_node("Groups", "short", f"kafka_coordinator_group_groupmetadatamanager_numgroups{{{NODE}}}"),
        by_node("Groups that rebalance", "short",
                f"kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance{{{NODE}}}"),
        Panel("Transactional ids", "short", ((
            'sum by (state) (kraft_transactional_ids{job="$job"})', "{{state}}"),)),
    )),
)

NODES: Final = (
    Row("Requests", (
        Panel("Requests", "reqps", ((
            f"sum by (request) (rate(kafka_network_requestmetrics_requests_total{{{NODE}}}[{RATE}]))",
            "{{request}}"),)),
        Panel("Errors", "cps", ((
            f"sum by (request, error) (rate(kafka_network_requestmetrics_errors_total{{{NODE}}}[{RATE}]))",
            "{{request}} {{error}}"),)),
        by_node("Delay of the event loop", "s", f"kraft_loop_delay_seconds{{{NODE}}}"),
    )),
    Row("Times", (
        Panel("Produce", "ms", quantiles("totaltimems", "Produce")),
        Panel("Fetch, handler only", "ms", quantiles("localtimems", "Fetch")),
        Panel("Produce, waiting for a flush or replicas", "ms", quantiles("remotetimems", "Produce")),
    )),
    Row("Connections", (
        Panel("Open", "short", ((
            f"kafka_server_socket_server_metrics_connection_count{{{NODE}}}", "{{instance}} {{listener}}"),)),
        Panel("Closed, by reason", "cps", ((
            f"sum by (reason) (rate(kraft_connections_closed_total{{{NODE}}}[{RATE}]))", "{{reason}}"),)),
        Panel("Logins", "cps", ((
            f"sum by (mechanism, result) (rate(kraft_authentications_total{{{NODE}}}[{RATE}]))",
            "{{mechanism}} {{result}}"),)),
    )),
    Row("Memory", (
        by_node("Resident", "bytes", f"process_resident_memory_bytes{{{NODE}}}"),
        Panel("Requests and unread answers", "bytes", (
            (f"kafka_server_socket_server_metrics_memorypoolused{{{NODE}}}", "{{instance}} requests"),
            (f"kraft_answers_unread_bytes{{{NODE}}}", "{{instance}} unread answers"))),
        by_node("Connections that wait for memory", "short", f"kraft_request_memory_waiting_connections{{{NODE}}}"),
    )),
    Row("Disk", (
        by_node("Bytes of logs", "bytes", f"sum by (instance) (kafka_log_log_size{{{NODE}}})"),
        by_node("Flushes", "cps", f"rate(kafka_log_logflushstats_logflush_total{{{NODE}}}[{RATE}])"),
        by_node("Time of a flush", "ms",
                f"rate(kafka_log_logflushstats_logflushtimems_total{{{NODE}}}[{RATE}]) / "
                f"rate(kafka_log_logflushstats_logflush_total{{{NODE}}}[{RATE}])"),
        by_node("Reads from the disk", "Bps", f"rate(kraft_cold_read_bytes_total{{{NODE}}}[{RATE}])"),
    )),
    Row("Process", (
        by_node("Processors", "short", f"rate(process_cpu_seconds_total{{{NODE}}}[{RATE}])"),
        by_node("Descriptors", "percentunit", f"process_open_fds{{{NODE}}} / process_max_fds{{{NODE}}}"),
        by_node("Compaction, bytes read", "Bps", f"rate(kraft_log_cleaner_read_bytes_total{{{NODE}}}[{RATE}])"),
    )),
    Row("TLS and audit", (
        Panel("Until a certificate ends", "s", ((
            f"kraft_tls_certificate_remaining_seconds{{{NODE}}}", "{{instance}} {{listener}}"),)),
        Panel("Handshakes", "cps", (
            (f"sum by (listener) (rate(kraft_tls_handshakes_total{{{NODE}}}[{RATE}]))", "{{listener}}"),
            (f"sum by (reason) (rate(kraft_tls_handshake_failures_total{{{NODE}}}[{RATE}]))", "failed: {{reason}}"))),
        Panel("Audit events", "cps", (
            (f"sum by (destination) (rate(kraft_audit_events_total{{{NODE}}}[{RATE}]))", "{{destination}}"),
            (f"sum by (destination) (rate(kraft_audit_events_dropped_total{{{NODE}}}[{RATE}]))",
             "{{destination}}, dropped"))),
    )),
)

DASHBOARDS: Final = {"kraft-cluster": ("kraft: cluster", CLUSTER), "kraft-nodes": ("kraft: nodes", NODES)}


def expressions() -> list[str]:
    """Every expression of the dashboards."""
    return [expression for _, rows in DASHBOARDS.values() for row in rows for panel in row.panels
            for expression, _ in panel.queries]


def dashboard(uid: str) -> dict[str, Any]:
    """Return a dashboard in Grafana's format."""
    title, rows = DASHBOARDS[uid]
    panels: list[dict[str, Any]] = []
    for line, row in enumerate(rows):
        top = line * (HEIGHT + 1)
        panels.append({"id": len(panels) + 1, "type": "row", "title": row.title, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1}})
        width = COLUMNS // len(row.panels)
        for column, panel in enumerate(row.panels):
            place = {"x": column * width, "y": top + 1, "w": width, "h": HEIGHT}
            panels.append(_panel(panel, len(panels) + 1, place))
    return {
        "uid": uid, "title": title, "tags": ["kraft"], "schemaVersion": 39, "editable": True, "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"}, "timezone": "browser", "panels": panels,
        "templating": {"list": [
            {"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"},
            _variable("job", "Job", "label_values(kraft_node_info, job)", many=False),
            _variable("instance", "Node", 'label_values(kraft_node_info{job="$job"}, instance)', many=True)]},
    }


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [{"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend, "datasource": SOURCE}
               for index, (expression, legend) in enumerate(panel.queries)]
    return {"id": number, "type": "stat" if panel.is_number else "timeseries", "title": panel.title, "gridPos": place,
            "datasource": SOURCE, "targets": targets,
            "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []}, "options": {}}


def _variable(name: str, label: str, query: str, *, many: bool) -> dict[str, Any]:
    return {"name": name, "label": label, "type": "query", "datasource": SOURCE, "query": query, "refresh": 2,
            "includeAll": many, "multi": many, **({"allValue": ".*"} if many else {})}


def text(uid: str) -> str:
    """Return a dashboard's file."""
    return json.dumps(dashboard(uid), indent=1) + "\n"


def main() -> int:
    for uid in DASHBOARDS:
        (DIRECTORY / f"{uid}.json").write_text(text(uid))
    return 0


if __name__ == "__main__":
    sys.exit(main())
