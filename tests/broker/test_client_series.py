"""Client metrics that were pushed: decoded, bounded in every respect, and removed when their client is silent."""

import struct
import tracemalloc
from uuid import UUID

import pytest

from kraft.broker.client_series import ClientSeries, SeriesLimits, attributes_text
from kraft.broker.client_telemetry import NOTHING, ClientTelemetry, Subscription, subscription_id
from kraft.broker.otlp import FIELDS_AT_ONCE, Point, points
from kraft.metadata.image import CLIENT_METRICS_RESOURCE, TOPIC_RESOURCE, MetadataImage, Resource
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.push_telemetry_request import PushTelemetryRequest
from kraft.steps import finish
from kraft_native.base.errors import MalformedMessageError
from kraft_native.batch.codecs import compress

ID, OTHER = UUID(int=0x1234_5678 << 64), UUID(int=0x8765_4321 << 64)
NOW_MS = 1_700_000_000_000
LIMITS = SeriesLimits(clients=3, series=6, series_of_client=4, decompressed_bytes=100_000)
FACTS = {"client_instance_id": "i", "client_id": "c"}


def varint(value: int) -> bytes:
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def attribute(key: str, value: bytes) -> bytes:
    return field(1, key.encode()) + field(2, value)


def point(value: float, **attributes: str) -> bytes:
    number = struct.pack("<Bq", 6 << 3 | 1, value) if isinstance(value, int) else struct.pack("<Bd", 4 << 3 | 1, value)
    return number + b"".join(field(7, attribute(key, field(1, text.encode()))) for key, text in attributes.items())


def metric(name: str, *values: bytes, kind: int = 5, temporality: int = 0) -> bytes:
    body = b"".join(field(1, value) for value in values) + (field(2, temporality) if temporality else b"")
    return field(1, name.encode()) + field(kind, body)


def payload(*metrics: bytes, **resource: str) -> bytes:
    attributes = b"".join(field(1, attribute(key, field(1, text.encode()))) for key, text in resource.items())
    return field(1, field(1, attributes) + field(2, b"".join(field(2, each) for each in metrics)))


def found(data: bytes) -> list[Point]:
    return [each for each in points(data) if each is not None]


def test_decoding() -> None:
    data = payload(metric("gauge", point(1.5, topic="t", a="b")), metric("sum", point(7), kind=7, temporality=1),
                   metric("total", point(-3), point(2), kind=7, temporality=2), group_id="g")
    resource = (("group_id", "g"),)
    assert found(data) == [
        Point("gauge", (("topic", "t"), ("a", "b")), 1.5, False, resource), Point("sum", (), 7.0, True, resource),
        Point("total", (), -3.0, False, resource), Point("total", (), 2.0, False, resource)]
    kinds = field(7, attribute("b", field(2, 1))) + field(7, attribute("i", field(3, (1 << 64) - 5))) + \
        field(7, attribute("d", struct.pack("<Bd", 4 << 3 | 1, 0.5)))
    [one] = found(payload(metric("m", point(1) + kinds)))
    assert one.attributes == (("b", "true"), ("i", "-5"), ("d", "0.5"))
    summary = field(1, b"s") + field(11, field(1, b"xx"))
    assert found(payload(summary, field(1, b"empty"), metric("m", b""), metric("h", b"", kind=9))) == []
    assert found(field(9, 5) + payload(metric("m", point(1)))) != []


def histogram(counts: list[int], bounds: list[float], *, packed: bool = True, total: float = 4.5) -> bytes:
    """One data point with the attribute `a`."""
    head = struct.pack("<BQBd", 4 << 3 | 1, sum(counts), 5 << 3 | 1, total)
    if packed:
        body = field(6, struct.pack(f"<{len(counts)}Q", *counts)) + field(7, struct.pack(f"<{len(bounds)}d", *bounds))
    else:
        body = b"".join(struct.pack("<BQ", 6 << 3 | 1, each) for each in counts) + \
            b"".join(struct.pack("<Bd", 7 << 3 | 1, each) for each in bounds)
    return head + body + field(9, attribute("a", field(1, b"b")))


@pytest.mark.parametrize("packed", [True, False])
def test_histograms(packed: bool) -> None:
    data = payload(metric("h", histogram([1, 0, 2], [0.5, 10], packed=packed), kind=9, temporality=1))
    a = ("a", "b")
    assert [each[:4] for each in found(data)] == [
        ("h.count", (a,), 3.0, True), ("h.sum", (a,), 4.5, True), ("h.bucket", (("le", "0.5"), a), 1.0, True),
        ("h.bucket", (("le", "10"), a), 1.0, True), ("h.bucket", (("le", "+Inf"), a), 3.0, True)]
    [count, *_] = found(payload(metric("h", histogram([1, 2], [1]), kind=9, temporality=2)))
    assert not count.is_delta
    for counts, bounds in (([1, 2], [1.0, 2.0]), ([1] * 66, [float(each) for each in range(65)])):
        assert [each.name for each in found(payload(metric("h", histogram(counts, bounds), kind=9)))] == \
            ["h.count", "h.sum"]


@pytest.mark.parametrize("data", [
    b"\x0a", b"\x0a\x05a", b"\x0b", b"\x80" * 11, field(1, field(2, field(2, b"\x0a\xff"))), b"\x09\x00",
    field(1, field(2, b"\x12\x04")) + field(9, 0) * 10,        # longer than its message, and shorter than the payload
])
def test_damage(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        list(points(data))


def test_decoding_pauses_however_a_payload_is_built() -> None:
    """No part between two pauses grows with the payload."""
    for data in (field(1, b"") * 1_000, field(1, field(2, field(2, b"") * 1_000)), payload(*[metric("m")] * 1_000),
                 payload(metric("m", *[b""] * 1_000))):
        assert sum(1 for _ in points(data)) >= 1_000
    many = field(9, 0) * 1_000
    for data in (payload(metric("m", many)), payload(metric("m", field(7, many))),
                 payload(metric("m", field(7, field(2, many)))), field(1, field(1, field(1, many))),
                 field(1, field(1, field(1, field(2, many))))):
        assert sum(1 for _ in points(data)) >= 1_000 // FIELDS_AT_ONCE


def test_decoding_needs_little_memory() -> None:
    """Two bytes are a whole data point, metric or scope; an object for each would be many times the payload."""
    for data in (payload(metric("m", *[b""] * 50_000)), field(1, field(2, b"") * 50_000)):
        tracemalloc.start()
        for _ in points(data):
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 50_000


def test_the_kind_of_a_sum_may_follow_its_points() -> None:
    body = field(1, point(2)) + field(2, 1) + field(1, point(3))
    assert [(each.value, each.is_delta) for each in found(payload(field(1, b"m") + field(7, body)))] == [
        (2.0, True), (3.0, True)]


def test_a_sum_that_grows_too_large_begins_again() -> None:
    series = ClientSeries(LIMITS)
    for _ in range(3):
        receive(series, payload(metric("m", point(1e308), kind=7, temporality=1)))
    assert series.clients(NOW_MS)[ID].values == {("m", ""): 1e308}


def receive(series: ClientSeries, data: bytes, client_id: UUID = ID, now_ms: int = NOW_MS,
            compression: int = 0) -> ErrorCode:
    return finish(series.receive(client_id, FACTS, 1_000, (compression, data), now_ms))


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_values_are_stored(codec: int) -> None:
    series = ClientSeries(LIMITS)
    data = payload(metric("m", point(1.5, b="2", a="1")), metric("sum", point(7), kind=7, temporality=1), group_id="g")
    for _ in range(2):
        assert receive(series, compress(codec, data) if codec else data, compression=codec) == ErrorCode.NONE
    client = series.clients(NOW_MS)[ID]
    assert client.values == {("m", "a=1,b=2"): 1.5, ("sum", ""): 14.0}
    assert (client.facts, client.groups, series.count) == (FACTS, {"group_id": "g"}, 2)
    assert series.pushes == {"accepted": 2, "malformed": 0}


def test_what_cannot_be_decoded_is_refused() -> None:
    series = ClientSeries(LIMITS)
    bomb = compress("gzip", field(9, 0) * (LIMITS.decompressed_bytes // 2 + 1))      # nothing else is wrong with it
    for data, codec in ((b"\xff", 0), (b"junk", 1), (bomb, 1)):
        assert receive(series, data, compression=codec) == ErrorCode.INVALID_RECORD
    assert receive(series, payload(metric("m", point(1))) + b"\xff") == ErrorCode.INVALID_RECORD
    assert series.pushes["malformed"] == 4
    assert receive(series, payload(metric("nan", point(float("nan"))), metric("inf", point(float("inf"))))) == 0
    assert list(series.clients(NOW_MS)[ID].values) == [("m", "")]


def test_everything_is_bounded() -> None:
    series = ClientSeries(LIMITS)
    receive(series, payload(*(metric(f"m{number}", point(number)) for number in range(9))))
    assert (series.count, series.dropped) == (4, 5)
    receive(series, payload(*(metric(f"m{number}", point(number)) for number in range(9))), OTHER)
    assert (series.count, series.dropped) == (6, 12)
    for number in range(1, 5):
        receive(series, payload(metric("m0", point(0))), UUID(int=number), NOW_MS + number)
    assert len(series.clients(NOW_MS + 5)) == 3
    assert series.evicted == 3
    assert series.count == sum(len(client.values) for client in series.clients(NOW_MS + 5).values())
    long = ClientSeries(LIMITS)
    receive(long, payload(metric("m" * 5_000, point(1, **{"a" * 300: "b" * 300}))))
    [(name, attributes)] = long.clients(NOW_MS)[ID].values
    assert len(name) == len(attributes) == 200
    assert attributes_text((("b", "1"), ("a", "2"))) == "a=2,b=1"


def test_silent_clients_are_removed() -> None:
    series = ClientSeries(LIMITS)
    receive(series, payload(metric("m", point(1))))
    receive(series, payload(metric("m", point(1))), OTHER, NOW_MS + 30_000)
    assert set(series.clients(NOW_MS + 60_000)) == {ID, OTHER}
    assert set(series.clients(NOW_MS + 60_001)) == {OTHER}
    assert series.count == 1


# --- subscriptions ----------------------------------------------------------------------------------------------------


def image(**subscriptions: dict[str, str]) -> MetadataImage:
    configs = {Resource(CLIENT_METRICS_RESOURCE, name): settings for name, settings in subscriptions.items()}
    return MetadataImage(configs={Resource(TOPIC_RESOURCE, "t"): {"retention.ms": "1"}, **configs})


def subscribed(telemetry: ClientTelemetry, instance: UUID, now_ms: int = NOW_MS, **facts: str) -> Subscription:
    assert telemetry.subscribe(instance, now_ms, facts) == ErrorCode.NONE
    return telemetry.subscription_of(instance)


def test_subscriptions_of_a_client_are_merged() -> None:
    telemetry = ClientTelemetry(lambda: ID, ClientSeries(LIMITS))
    finish(telemetry.refresh(image(
        a={"metrics": "org.apache.kafka.producer.,x", "interval.ms": "5000"},
        b={"metrics": "x,y", "interval.ms": "1000"},
        c={"metrics": "*", "match": "client_software_name=apache-kafka-.*,client_id=c[0-9]"},
        d={"metrics": "z", "match": "client_id=["})))
    assert subscribed(telemetry, ID, client_id="other") == Subscription(("org.apache.kafka.producer.", "x", "y"), 1_000)
    java = {"client_software_name": "apache-kafka-java", "client_id": "c1"}
    assert subscribed(telemetry, OTHER, **java) == Subscription(("*",), 1_000)


def test_a_changed_subscription_applies_at_once() -> None:
    telemetry = ClientTelemetry(lambda: ID, ClientSeries(LIMITS))
    first = subscribed(telemetry, ID)
    assert first == NOTHING
    request = PushTelemetryRequest(client_instance_id=ID, subscription_id=subscription_id(ID, first), metrics=b"x")
    changed = image(a={"metrics": "x"})
    finish(telemetry.refresh(changed))
    assert telemetry.push(request, 10, NOW_MS) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    second = subscribed(telemetry, ID)
    assert second.metrics == ("x",)
    request.subscription_id = subscription_id(ID, second)
    assert telemetry.push(request, 10, NOW_MS + 1_000_000) == ErrorCode.NONE
    finish(telemetry.refresh(changed))
    assert telemetry.subscription_of(ID) == second
    finish(telemetry.refresh(image()))
    assert subscribed(telemetry, ID, NOW_MS + 1) == NOTHING


def test_without_a_receiver_nobody_is_subscribed() -> None:
    telemetry = ClientTelemetry(lambda: ID)
    finish(telemetry.refresh(image(a={"metrics": "*"})))
    assert subscribed(telemetry, ID) == NOTHING
