"""Client instances and the metrics that they pushed (KIP-714), from the text of a node's listener for metrics."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

INFO: Final = "kraft_client_info{"
VALUE: Final = "kraft_client_metric{"
LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
ESCAPE: Final = re.compile(r"\\(.)")
BUCKET: Final = ".bucket"
BOUND: Final = "le"


class ClientInstance(NamedTuple):
    """One client instance. `pushed_seconds_ago`: time since its last push. `listener`: the node's listener that
    reported it, where several are read."""

    instance: str
    client_id: str
    software: str
    version: str
    address: str
    group: str
    transactional_id: str
    pushed_seconds_ago: float
    listener: str = ""


class Pushed(NamedTuple):
    """One value. `attributes`: `name=value` pairs, separated by commas."""

    instance: str
    metric: str
    attributes: str
    value: float


class Histogram(NamedTuple):
    """Buckets of one histogram: the counts of values up to each bound, in ascending order."""

    metric: str
    attributes: str
    buckets: tuple[tuple[float, float], ...]

    @property
    def total(self) -> float:
        """Number of all values."""
        return self.buckets[-1][1]

    def quantile(self, share: float) -> float:
        """Return the bound of the bucket that holds this share of the values; 0 for none."""
        return next((bound for bound, count in self.buckets if self.total and count >= share * self.total), 0.0)


def parsed(text: str, listener: str = "") -> tuple[list[ClientInstance], list[Pushed]]:
    """Return the instances, sorted by client id, and all values of a scrape."""
    instances, values = [], []
    for line in text.split("\n"):
        if line.startswith(INFO):
            labels, value = _labels(line)
            known = {name: labels.get(name, "") for name in ClientInstance._fields[:7]}
            instances.append(ClientInstance(**known, pushed_seconds_ago=round(value, 1), listener=listener))
        elif line.startswith(VALUE):
            labels, value = _labels(line)
            values.append(Pushed(labels.get("instance", ""), labels.get("metric", ""), labels.get("attributes", ""),
                                 value))
    return sorted(instances, key=lambda each: (each.client_id, each.instance)), values


def _labels(line: str) -> tuple[dict[str, str], float]:
    body, _, value = line.rpartition("} ")
    return {name: ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], text)
            for name, text in LABEL.findall(body)}, float(value.split()[0])


def histograms(values: list[Pushed]) -> tuple[list[Histogram], list[Pushed]]:
    """Return the histograms of one instance, and the values that belong to none."""
    buckets: dict[tuple[str, str], list[tuple[float, float]]] = {}
    others = []
    for each in values:
        bound, attributes = _bound_of(each) if each.metric.endswith(BUCKET) else (None, "")
        if bound is None:
            others.append(each)
        else:
            buckets.setdefault((each.metric.removesuffix(BUCKET), attributes), []).append((bound, each.value))
    return [Histogram(*key, tuple(sorted(found))) for key, found in sorted(buckets.items())], others


def _bound_of(value: Pushed) -> tuple[float | None, str]:
    """Return the bound of a bucket, None where there is none, and its other attributes."""
    pairs = value.attributes.split(",")
    rest = ",".join(each for each in pairs if not each.startswith(f"{BOUND}="))
    return next(_numbers(each.partition("=")[2] for each in pairs if each.startswith(f"{BOUND}=")), None), rest


def _numbers(texts: Iterator[str]) -> Iterator[float]:
    for text in texts:
        try:
            yield float(text)
        except ValueError:
            continue
