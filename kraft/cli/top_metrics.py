"""Load of nodes as their listeners for metrics show it: two scrapes, and the rates between them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kraft.cli.options import Fields

TIMES: Final = "kafka_network_requestmetrics_totaltimems_bucket"
REQUESTS: Final = "kafka_network_requestmetrics_requests_total"
TOTALS: Final = {
    "records_in_per_second": "kafka_server_brokertopicmetrics_alltopics_messagesin_total",
    "bytes_in_per_second": "kafka_server_brokertopicmetrics_alltopics_bytesin_total",
    "bytes_out_per_second": "kafka_server_brokertopicmetrics_alltopics_bytesout_total",
}
CONNECTIONS: Final = "kafka_server_socket_server_metrics_connection_count"
SHOWN: Final = ("Produce", "Fetch")
QUANTILE: Final = 0.99


@dataclass(slots=True)
class Scrape:
    """Values of one node. `buckets`: of each request, the number that took at most so many milliseconds."""

    time_s: float
    values: dict[str, float] = field(default_factory=dict)
    buckets: dict[str, dict[float, float]] = field(default_factory=dict)


def parse(text: str, time_s: float) -> Scrape:
    """Return the values that rates need. Raises `ValueError` for a text that is not Prometheus'."""
    from prometheus_client.parser import text_string_to_metric_families

    wanted = {REQUESTS, CONNECTIONS, *TOTALS.values(), "process_cpu_seconds_total", "process_resident_memory_bytes",
              "kraft_loop_delay_seconds"}
    found = Scrape(time_s)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == TIMES and sample.labels.get("request") in SHOWN:
                buckets = found.buckets.setdefault(sample.labels["request"], {})
                limit = float(sample.labels["le"])
                buckets[limit] = buckets.get(limit, 0.0) + sample.value
            elif sample.name in wanted:
                found.values[sample.name] = found.values.get(sample.name, 0.0) + sample.value
    return found


def node(listener: str, before: Scrape, now: Scrape) -> Fields:
    """Return the row of one node. A percentile is None where no request ended in between."""
    seconds = now.time_s - before.time_s

    def rate(name: str) -> float:
        return max(0.0, now.values.get(name, 0.0) - before.values.get(name, 0.0)) / seconds if seconds > 0 else 0.0

    row: Fields = {"listener": listener, "requests_per_second": round(rate(REQUESTS), 1)}
    row |= {name: round(rate(total), 1) for name, total in TOTALS.items()}
    for request in SHOWN:
        row[f"{request.lower()}_p99_ms"] = quantile(before.buckets.get(request, {}), now.buckets.get(request, {}))
    return row | {
        "processor_percent": round(100 * rate("process_cpu_seconds_total"), 1),
        "memory_bytes": int(now.values.get("process_resident_memory_bytes", 0)),
        "connections": int(now.values.get(CONNECTIONS, 0)),
        "loop_delay_ms": round(1000 * now.values.get("kraft_loop_delay_seconds", 0.0), 2),
    }


def quantile(before: Mapping[float, float], now: Mapping[float, float]) -> float | None:
    """Return the upper limit of the bucket in which the 99th percentile lies, of what came between two scrapes."""
    counts = [(limit, count - before.get(limit, 0.0)) for limit, count in sorted(now.items())]
    total = counts[-1][1] if counts else 0.0
    if total <= 0:
        return None
    finite = [limit for limit, _ in counts if limit != float("inf")]
    return next((limit for limit, count in counts if count >= QUANTILE * total and limit != float("inf")),
                finite[-1] if finite else None)
