"""Every captured frame between real clients and Kafka decodes to its expected fields and encodes to the same bytes."""

import json
from typing import Any

from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.headers import (
    decode_request,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)
from tests.golden import golden, needs_golden
from tests.protocol.json_form import JsonForm, lower_keys


def frames() -> list[dict[str, Any]]:
    lines = [line for path in sorted(golden("wire").glob("*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    assert len(lines) == 640
    return [json.loads(line) for line in lines]


def check_request(frame: dict[str, Any]) -> None:
    data = bytes.fromhex(frame["request_hex"])
    api, header, body = decode_request(data)
    assert (api.key, header.request_api_version) == (frame["api"], frame["version"])
    assert (header.correlation_id, header.client_id) == (frame["correlation_id"], frame["client_id"])
    assert api.request_header_version(frame["version"]) == frame["request_header_version"]
    version = frame.get("request_body_version", frame["version"])
    message = api.request.decode(body, version, exact="request_body_version" not in frame)
    assert JsonForm(f"{api.name}Request", version).write(message, sizes=True) == lower_keys(frame["request"])
    if not header.unknown_tags:
        again = encode_request_header(api, frame["version"], header.correlation_id, header.client_id)
        assert again + message.encode(version) + bytes(body)[len(message.encode(version)):] == data


def check_response(frame: dict[str, Any]) -> None:
    api = API_BY_KEY[frame["api"]]
    data = bytes.fromhex(frame["response_hex"])
    version = frame.get("response_version", frame["version"])
    header, body = decode_response_header(data, api, frame["version"])
    assert header.correlation_id == frame["correlation_id"]
    assert api.response_header_version(frame["version"]) == frame["response_header_version"]
    message = api.response.decode(body, version, exact=True)
    assert JsonForm(f"{api.name}Response", version).write(message, sizes=True) == lower_keys(frame["response"])
    assert encode_response_header(api, frame["version"], header.correlation_id) + message.encode(version) == data


@needs_golden
def test_every_frame() -> None:
    wrong = []
    for frame in frames():
        for check in (check_request, check_response):
            if frame.get(check.__name__.removeprefix("check_") + "_hex"):
                try:
                    check(frame)
                except AssertionError as error:
                    wrong.append(f"{check.__name__} {frame['name']} version {frame['version']} "
                                 f"from {frame['library']}: {error}")
    assert not wrong, f"{len(wrong)} frames:\n" + "\n".join(wrong[:5])
