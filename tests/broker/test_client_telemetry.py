"""Client telemetry: which clients may request a subscription, and when they may push.

`tests/peer/test_answers_peer.py` compares the same answers with those of Kafka.
"""

from uuid import UUID

import pytest

from kraft.broker import client_telemetry
from kraft.broker.client_telemetry import PUSH_INTERVAL_MS, ClientTelemetry, subscription_id
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.push_telemetry_request import PushTelemetryRequest

ID = UUID("12345678-9abc-4def-8123-456789abcdef")
OTHER = UUID("87654321-9abc-4def-8123-456789abcdef")
NOW_MS = 1_700_000_000_000
BYTES_MAX = 10


def clients() -> ClientTelemetry:
    return ClientTelemetry(lambda: ID)


def push(telemetry: ClientTelemetry, now_ms: int = NOW_MS, client_id: UUID = ID, **fields: object) -> ErrorCode:
    given = {"subscription_id": subscription_id(client_id), "metrics": b"", **fields}
    return telemetry.push(PushTelemetryRequest(client_instance_id=client_id, **given),  # type: ignore[arg-type]
                          BYTES_MAX, now_ms)


def test_a_client_requests_its_subscription_once_per_interval() -> None:
    telemetry = clients()
    assert telemetry.subscribe(ID, NOW_MS) == ErrorCode.NONE
    assert telemetry.subscribe(OTHER, NOW_MS) == ErrorCode.NONE
    assert telemetry.subscribe(ID, NOW_MS + PUSH_INTERVAL_MS - 1) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert telemetry.subscribe(ID, NOW_MS + PUSH_INTERVAL_MS) == ErrorCode.NONE


def test_a_client_pushes_after_its_request_and_then_once_per_interval() -> None:
    telemetry = clients()
    telemetry.subscribe(ID, NOW_MS)
    assert push(telemetry, NOW_MS + 1) == ErrorCode.NONE
    assert push(telemetry, NOW_MS + 2) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(telemetry, NOW_MS + 1 + PUSH_INTERVAL_MS) == ErrorCode.NONE
    assert telemetry.subscribe(ID, NOW_MS + 2 * PUSH_INTERVAL_MS) == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_client_that_ends_may_push_again_at_any_time() -> None:
    telemetry = clients()
    assert push(telemetry) == ErrorCode.NONE
    assert push(telemetry, terminating=True) == ErrorCode.NONE
    assert push(telemetry, NOW_MS + PUSH_INTERVAL_MS, terminating=True) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("fields", "code"), [
    ({"client_id": UUID(int=0)}, ErrorCode.INVALID_REQUEST),
    ({"client_id": UUID(int=1)}, ErrorCode.INVALID_REQUEST),
    ({"subscription_id": subscription_id(OTHER)}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
    ({"compression_type": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ({"compression_type": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ({"metrics": bytes(BYTES_MAX + 1)}, ErrorCode.TELEMETRY_TOO_LARGE),
    ({"compression_type": 4, "metrics": bytes(BYTES_MAX)}, ErrorCode.NONE),
    ({"compression_type": 0}, ErrorCode.NONE),
])
def test_pushed_metrics_are_checked(fields: dict[str, object], code: ErrorCode) -> None:
    assert push(clients(), **fields) == code  # type: ignore[arg-type]


def test_a_client_that_pushed_for_another_subscription_may_request_at_once() -> None:
    for fields, code in (({"subscription_id": 1}, ErrorCode.NONE), ({"compression_type": 9}, ErrorCode.NONE),
                         ({"metrics": bytes(BYTES_MAX + 1)}, ErrorCode.THROTTLING_QUOTA_EXCEEDED)):
        telemetry = clients()
        assert push(telemetry, **fields) != ErrorCode.NONE  # type: ignore[arg-type]
        assert telemetry.subscribe(ID, NOW_MS + 1) == code
        assert telemetry.subscribe(ID, NOW_MS + 2) == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_clients_are_forgotten_when_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_telemetry, "CLIENTS_MAX", 2)
    telemetry = clients()
    codes = [telemetry.subscribe(UUID(int=number), NOW_MS) for number in (5, 6, 5, 7, 5, 6)]
    early = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, early, ErrorCode.NONE, early, ErrorCode.NONE]
