"""Records in JSON, positions and filters: what is accepted, and how a refusal names the wrong field."""

import contextlib
import json
import sys

import pytest

from kraft.gateway.errors import RequestError
from kraft.gateway.records import (
    VALUES_PER_RECORD,
    Outgoing,
    key_filter,
    outgoing_of_body,
    outgoing_of_lines,
    positions_of,
    positions_text,
    record_json,
)


def body(value: object) -> bytes:
    return json.dumps(value).encode()


def test_each_form_of_a_record() -> None:
    assert outgoing_of_body(body({"value": "tea"}), 1) == [Outgoing(b"tea")]
    assert outgoing_of_body(body({"value": None, "key": ""}), 1) == [Outgoing(None, b"")]
    assert outgoing_of_body(body({"value_base64": "/w==", "key_json": {"a": [1, "é"]}}), 1) == [
        Outgoing(b"\xff", '{"a":[1,"é"]}'.encode())]
    assert outgoing_of_body(body({"value_json": None}), 1) == [Outgoing(b"null")]
    full = {"value": "x", "partition": 3, "timestamp_ms": 5, "headers": [{"name": "h", "value_base64": "AA=="},
                                                                        {"name": "n", "value": None}]}
    assert outgoing_of_body(body({"records": [full, {"value": "y", "headers": {"a": "b"}}]}), 2) == [
        Outgoing(b"x", None, (("h", b"\0"), ("n", None)), 3, 5), Outgoing(b"y", None, (("a", b"b"),))]
    assert outgoing_of_lines(b'{"value":"a"}\n\n{"value":"b"}\n', 2) == [Outgoing(b"a"), Outgoing(b"b")]


@pytest.mark.parametrize(("given", "text"), [
    ([], "body: not an object"), ({}, "value, value_base64 or value_json is missing"),
    ({"values": 1}, "body.values: unknown; allowed: headers, key"), ({"value": 5}, "body.value: not a text"),
    ({"value": "a", "value_json": 1}, "value and value_json"), ({"value_base64": "?"}, "body.value_base64: "),
    ({"value": "a", "partition": -1}, "body.partition: -1; allowed: 0 to"),
    ({"value": "a", "partition": True}, "body.partition: True"),
    ({"value": "a", "timestamp_ms": 1.5}, "body.timestamp_ms: 1.5"), ({"value": "a", "headers": 1}, "body.headers"),
    ({"value": "a", "headers": [{"value": "x"}]}, r"headers\[0\]: allowed"),
    ({"records": []}, "0 of them; allowed: 1 to 2"), ({"records": [{"value": "a"}] * 3}, "3 of them"),
    ({"records": {}}, "records: allowed is a list"), ({"records": [{"value": "a"}, 7]}, r"records\[1\]: not an object"),
    ({"value": "\ud800"}, "body.value: "), ({"value": "a", "timestamp_ms": 0}, "timestamp_ms: 0; allowed: 1 to"),
    ({"value": "a", "headers": {"\ud800": "x"}}, r"headers\[0\].name: "),
    ({"value": "a", "headers": {"a\0b": "x"}}, r"headers\[0\].name: 'a\\x00b' has a zero byte"),
    ({"value": "a", "partition": 10**900}, "body.partition: 1000.{36}; allowed"),
])
def test_wrong_fields_are_named(given: object, text: str) -> None:
    with pytest.raises(RequestError, match=text) as caught:
        outgoing_of_body(body(given), 2)
    assert caught.value.status == 400


def test_text_that_is_not_json() -> None:
    for given in (b"{", b"\xff", b"[" * 100_000, b'{"value_json": NaN}', b'{"value_json": [-Infinity]}'):
        with pytest.raises(RequestError, match="body: not JSON"):
            outgoing_of_body(given, 10_000)
    for depth in range(sys.getrecursionlimit()):        # reading and writing reach their limits at different depths
        with contextlib.suppress(RequestError):
            outgoing_of_body(b'{"value_json":%b%b}' % (b"[" * depth, b"]" * depth), 1_000)
    with pytest.raises(RequestError, match="line 2: not JSON"):
        outgoing_of_lines(b'{"value":"a"}\n{', 9)


def test_what_was_read_can_be_produced_again() -> None:
    found = record_json(1, 2, 3, b"\xff", "tea é".encode(), [("h", b"\xfe"), ("n", None)])
    assert found == {"partition": 1, "offset": 2, "timestamp_ms": 3, "key_base64": "/w==", "value": "tea é",
                     "headers": [{"name": "h", "value_base64": "/g=="}, {"name": "n", "value": None}]}
    assert outgoing_of_body(body(found), 1) == [Outgoing(b"\xff", None, (), 1, 3)._replace(
        value="tea é".encode(), key=b"\xff", headers=(("h", b"\xfe"), ("n", None)))]
    assert outgoing_of_body(body(record_json(1, 2, -1, None, b"x", ())), 1) == [Outgoing(b"x", None, (), 1)]
    assert outgoing_of_body(body({"value_json": "\ud800"}), 1) == [Outgoing(b'"\\ud800"')]
    assert record_json(0, 0, 0, None, None, ()) == {"partition": 0, "offset": 0, "timestamp_ms": 0, "value": None}


def test_positions() -> None:
    assert positions_of("0:15,3:20") == {0: 15, 3: 20}
    assert positions_text({0: 15, 3: 20}) == "0:15,3:20"
    for text in ("", "0", "0:", ":1", "0:1,", "0:1,0:2", "a:1", "0:-1", "0:1:2", "٣:1", "99999999999:0", f"0:{2**63}"):
        with pytest.raises(RequestError, match="Last-Event-ID"):
            positions_of(text)


def test_filters_of_keys() -> None:
    assert key_filter([], []) is None
    wanted = key_filter(["a", "é"], ["sensor-"])
    assert wanted is not None
    assert [wanted(key) for key in (b"a", "é".encode(), b"sensor-7", b"ab", b"", None)] == [
        True, True, True, False, False, False]


def test_bodies_that_take_seconds_to_read_are_refused() -> None:
    """The gateway does nothing else meanwhile."""
    allowed = 2 * VALUES_PER_RECORD
    for given in (body({"value_json": [1] * (allowed + 1)}), body({"value_json": [[]] * allowed}),
                  body({"value_json": {str(number): 1 for number in range(allowed)}})):
        with pytest.raises(RequestError, match=f"values and brackets; allowed: {allowed}"):
            outgoing_of_body(given, 2)
        with pytest.raises(RequestError, match="values and brackets"):
            outgoing_of_lines(given, 2)
    text = 'a,"b",\\' * 100
    assert outgoing_of_body(body({"value": text}), 2) == [Outgoing(text.encode())]
    with pytest.raises(RequestError, match="not JSON"):
        outgoing_of_body(b'",\\' * 100_000, 2)       # quotes without an end
    with pytest.raises(RequestError, match="1001 digits; allowed: 1000"):
        outgoing_of_body(b'{"value_json":' + b"9" * 1_001 + b"}", 1)
    assert len(outgoing_of_lines(b'\n{"value":"a"}\n\n{"value":"b"}', 2)) == 2
    with pytest.raises(RequestError, match="5 lines, empty ones included; allowed: 4"):
        outgoing_of_lines(b"\n" * 5, 2)
