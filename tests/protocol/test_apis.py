"""The tables: APIs, headers, error codes."""

import json

import pytest

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY, API_BY_NAME, REMOVED_KEYS
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.headers import (
    decode_request,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.protocol.registry import message_class
from kraft_native.base import errors
from kraft_native.base.errors import MalformedMessageError
from tests.golden import golden, needs_golden
from tests.protocol.json_form import schemas
from tools.schema import snake_case


def test_every_api_has_its_messages() -> None:
    for key, api in API_BY_KEY.items():
        assert (api.key, api.request.API_KEY, api.response.API_KEY) == (key, key, key)
        assert API_BY_NAME[api.name] is api
        assert api.versions == api.request.VERSIONS == api.response.VERSIONS
        assert api.flexible_from == api.request.FLEXIBLE_FROM == api.response.FLEXIBLE_FROM
        assert api.latest_stable in api.versions
        for announced in (api.broker_versions, api.controller_versions):
            assert announced is None or announced[-1] == api.latest_stable
    assert not REMOVED_KEYS.keys() & API_BY_KEY.keys()
    assert [key for key, api in API_BY_KEY.items() if api.private] == [
        ApiKey.DISCOVER_BROKERS, ApiKey.CONTROLLER_HEARTBEAT, ApiKey.DESCRIBE_RECORDER]
    assert len(API_BY_KEY) == 92


@needs_golden
def test_versions_that_kafka_announced() -> None:
    """The table against the answers of Kafka's listeners, on which two telemetry APIs need a plug-in."""
    for line in golden("wire", "ApiVersions.jsonl").read_text("utf-8").splitlines():
        frame = json.loads(line)
        if frame["version"] != 4:
            continue
        _, body = decode_response_header(bytes.fromhex(frame["response_hex"]), API_BY_NAME["ApiVersions"], 4)
        listener = "controller" if frame["to"].startswith("controller") else "broker"
        announced = {each.api_key: range(each.min_version, each.max_version + 1)
                     for each in ApiVersionsResponse.decode(body, 4).api_keys}
        ours = {key: versions for key, api in API_BY_KEY.items()
                if (versions := getattr(api, f"{listener}_versions")) is not None and not api.private}
        for key in (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY):
            ours.pop(key, None)
        assert announced == ours, frame["to"]


def test_header_versions() -> None:
    metadata, versions, handshake = (API_BY_NAME[name] for name in ("Metadata", "ApiVersions", "SaslHandshake"))
    assert [metadata.request_header_version(version) for version in (8, 9)] == [1, 2]
    assert [metadata.response_header_version(version) for version in (8, 9)] == [0, 1]
    assert [versions.request_header_version(version) for version in (2, 3, 99)] == [1, 2, 2]
    assert [versions.response_header_version(version) for version in (2, 3, 99)] == [0, 0, 0]
    assert (handshake.request_header_version(1), handshake.response_header_version(1)) == (1, 0)


def test_headers_there_and_back() -> None:
    for api in API_BY_KEY.values():
        for version in api.versions:
            for client_id in ("client", "", None):
                frame = encode_request_header(api, version, -7, client_id) + b"body"
                found, header, body = decode_request(frame)
                assert (found, header.request_api_version, header.correlation_id) == (api, version, -7)
                assert (header.client_id, bytes(body)) == (client_id, b"body")
            head, rest = decode_response_header(encode_response_header(api, version, 9) + b"body", api, version)
            assert (head.correlation_id, bytes(rest)) == (9, b"body")


def test_headers_that_are_refused() -> None:
    good = encode_request_header(API_BY_NAME["Metadata"], 12, 1, "client")
    for size in range(len(good)):
        with pytest.raises(MalformedMessageError):
            decode_request(good[:size])
    for key in (-1, 4, 7, 93, 999, 32767):
        with pytest.raises(MalformedMessageError, match=f"API {key}"):
            decode_request(key.to_bytes(2, "big", signed=True) + bytes(20))
    with pytest.raises(MalformedMessageError):
        decode_response_header(b"\0\0\0", API_BY_NAME["Metadata"], 12)


def test_error_codes() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION == 3  # type: ignore[call-arg]
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable and ErrorCode.NOT_LEADER_OR_FOLLOWER.refresh_metadata
    assert not ErrorCode.NONE.retriable and not ErrorCode.THROTTLING_QUOTA_EXCEEDED.refresh_metadata
    assert all(code.retriable for code in ErrorCode if code.refresh_metadata)
    assert len({code.message for code in ErrorCode}) == len(ErrorCode)
    with pytest.raises(ValueError):
        ErrorCode(134)  # type: ignore[call-arg]


def test_the_engines_exceptions_carry_kafkas_codes() -> None:
    for name in dir(errors):
        error = getattr(errors, name)
        if isinstance(error, type) and issubclass(error, errors.KraftError):
            assert ErrorCode(error.code)  # type: ignore[call-arg]


def test_the_registry_finds_every_message() -> None:
    for name, schema in schemas().items():
        assert message_class(name).__name__ == name
        assert schema.module == snake_case(name)
    with pytest.raises(ModuleNotFoundError):
        message_class("NoSuchMessage")
