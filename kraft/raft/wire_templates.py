"""Fetch requests and their answers as bytes, without the detour over Kafka's message objects.

A quorum that commits sends one Fetch after the other, and each differs from the one before in a few numbers and the
records only. A template is created from the codec's output: encoding other values shows where the numbers are. A
message that does not fit the last template goes through the codec, so the bytes are the same in every case.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from struct import Struct
from typing import Final

from kraft.protocol.messages.fetch_request import FetchRequest as FetchMessage
from kraft.raft.messages import HIGH_WATERMARK_UNREPORTED, FetchRequest, FetchResponse, Request, Response
from kraft.raft.wire import FETCH_CODEC, whole_batches
from kraft_native.replica.template import Template

INT32: Final = Struct(">i")
INT64: Final = Struct(">q")
REQUEST_NUMBERS: Final[Mapping[str, Struct]] = {
    "epoch": INT32, "fetch_offset": INT64, "last_fetched_epoch": INT32, "high_watermark": INT64}
SOURCES_MAX: Final = 256


def template_of(numbers: Mapping[str, Struct], make: Callable[[Mapping[str, int]], bytes]) -> Template | None:
    """Return a template of the output of `make(values)`. None when more than the numbers changes in it, or they have no
    places in this order."""
    zeros = dict.fromkeys(numbers, 0)
    blank = make(zeros)
    places = []
    for name, struct in numbers.items():
        other = make({**zeros, name: -1})
        at = next((at for at, (a, b) in enumerate(zip(blank, other, strict=False)) if a != b), -1)
        if at < 0:
            return None
        places.append((at, struct.size))
    if places != sorted(places):
        return None
    template = Template(blank, places)
    return template if make(dict.fromkeys(numbers, -1)) == template.write(*[-1] * len(numbers)) else None


class _RequestTemplate:
    def __init__(self, request: FetchRequest, version: int) -> None:
        self.version = version
        self.request = request
        self.numbers = template_of(REQUEST_NUMBERS, lambda values: FETCH_CODEC.encode_request(
            replace(request, **values), version).encode(version))  # type: ignore[arg-type]

    @property
    def is_fixed(self) -> bool:
        return self.numbers is not None

    def fits(self, request: FetchRequest, version: int) -> bool:
        mine = self.request
        return (version == self.version and request.max_wait_ms == mine.max_wait_ms
                and request.max_bytes == mine.max_bytes and request.is_follower == mine.is_follower
                and request.replica == mine.replica and request.cluster_id == mine.cluster_id)

    def write(self, request: FetchRequest) -> bytes:
        assert self.numbers is not None
        return self.numbers.write(request.epoch, request.fetch_offset, request.last_fetched_epoch,
                                  request.high_watermark)

    def read(self, body: bytes) -> FetchRequest | None:
        numbers = self.numbers
        values = numbers.read(body) if numbers is not None and len(body) == len(numbers) else None
        if values is None:
            return None
        epoch, fetch_offset, last_fetched_epoch, high_watermark = values
        mine = self.request
        return FetchRequest(
            cluster_id=mine.cluster_id, replica=mine.replica, epoch=epoch, fetch_offset=fetch_offset,
            last_fetched_epoch=last_fetched_epoch, max_bytes=mine.max_bytes, max_wait_ms=mine.max_wait_ms,
            high_watermark=high_watermark, is_follower=mine.is_follower)


class _ResponseTemplate:
    """Template of an answer with records or without, and with no other content."""

    def __init__(self, response: FetchResponse, version: int) -> None:
        self.version = version
        self.response = response

        def encode(high_watermark: int, records: bytes) -> bytes:
            return FETCH_CODEC.encode_response(
                replace(response, high_watermark=high_watermark, records=records), version).encode(version)

        empty, one = encode(0, b""), encode(0, b"\0")
        at = next((at for at, (a, b) in enumerate(zip(empty, one, strict=False)) if a != b), 0)
        self.tail = empty[at + 1:]
        self.numbers = template_of({"high_watermark": INT64}, lambda values: encode(values["high_watermark"], b"")[:at])
        # Only under these conditions is the length of the records a number of variable size, and this its place.
        self.is_fixed = self.numbers is not None and empty[at:at + 1] == b"\1" and (
            one == empty[:at] + b"\2\0" + self.tail)

    def fits(self, response: FetchResponse, version: int) -> bool:
        mine = self.response
        return (version == self.version and response.epoch == mine.epoch and response.leader_id == mine.leader_id
                and response.log_start_offset == mine.log_start_offset and response.not_follower == mine.not_follower
                and response.leader_endpoints == mine.leader_endpoints)

    def write(self, response: FetchResponse) -> list[bytes]:
        records = response.records if isinstance(response.records, bytes) else b""
        assert self.numbers is not None
        return [self.numbers.write(response.high_watermark) + _uvarint(len(records) + 1), records, self.tail]

    def read(self, body: memoryview) -> FetchResponse | None:
        assert self.numbers is not None
        found = self.numbers.read_bytes(body, self.tail)
        if found is None:
            return None
        (high_watermark,), start, end = found
        mine = self.response
        return FetchResponse(
            epoch=mine.epoch, leader_id=mine.leader_id, leader_endpoints=mine.leader_endpoints,
            high_watermark=high_watermark, log_start_offset=mine.log_start_offset,
            records=whole_batches(body[start:end]), not_follower=mine.not_follower)


class FetchTemplates:
    """Templates of one process. The methods raise what the codec raises."""

    def __init__(self) -> None:
        self._encoding_request: _RequestTemplate | None = None
        self._decoding_requests: dict[int, _RequestTemplate | int] = {}
        """Templates by source; for a request without a template, its size."""
        self._answering: _ResponseTemplate | None = None
        self._answered: _ResponseTemplate | None = None
        self._last: tuple[FetchResponse, int, list[bytes]] | None = None

    def request_bytes(self, request: FetchRequest, version: int) -> bytes:
        template = self._encoding_request
        if request.high_watermark == HIGH_WATERMARK_UNREPORTED:
            return FETCH_CODEC.encode_request(request, version).encode(version)
        if template is None or not template.fits(request, version):
            body = FETCH_CODEC.encode_request(request, version).encode(version)
            template = _RequestTemplate(request, version)
            self._encoding_request = template if template.is_fixed and template.write(request) == body else None
            return body
        return template.write(request)

    def request_of(self, source: int, body: bytes, version: int) -> Request:
        """Decode a Fetch that came from a connection."""
        template = self._decoding_requests.get(source)
        if isinstance(template, _RequestTemplate) and template.version == version:
            found = template.read(body)
            if found is not None:
                return found
        request = FETCH_CODEC.decode_request(FetchMessage.decode(body, version), version)
        if template != len(body) and isinstance(request, FetchRequest):
            self._learn(source, request, body, version)
        return request

    def _learn(self, source: int, request: FetchRequest, body: bytes, version: int) -> None:
        if len(self._decoding_requests) >= SOURCES_MAX:
            self._decoding_requests.clear()
        self._decoding_requests[source] = len(body)
        if request.high_watermark != HIGH_WATERMARK_UNREPORTED:
            template = _RequestTemplate(request, version)
            if template.is_fixed and template.write(request) == body:
                self._decoding_requests[source] = template

    def response_parts(self, response: Response, version: int) -> list[bytes]:
        """Return the body as consecutive parts; the records are those of the response and not a copy."""
        last, template = self._last, self._answering
        if last is not None and last[0] is response and last[1] == version:
            return last[2]
        if not isinstance(response, FetchResponse) or not response.is_plain:
            return [FETCH_CODEC.encode_response(response, version).encode(version)]
        if template is not None and template.fits(response, version):
            parts = template.write(response)
        else:
            parts = [FETCH_CODEC.encode_response(response, version).encode(version)]
            template = _ResponseTemplate(response, version)
            is_alike = template.is_fixed and b"".join(template.write(response)) == parts[0]
            self._answering = template if is_alike else None
        self._last = response, version, parts
        return parts

    def last_form(self, version: int, epoch: int, leader_id: int) -> tuple[Template, bytes] | None:
        """Return what precedes and what follows the records of the last answer, if that came from this leader and
        another may differ from it only in high watermark and records."""
        template = self._answered
        if template is None or template.numbers is None or template.version != version or (
                (template.response.epoch, template.response.leader_id) != (epoch, leader_id)):
            return None
        return template.numbers, template.tail

    def response_of(self, body: memoryview, version: int) -> Response:
        """Decode an answer. Records may be a view of `body`, and are then valid as long as `body` is."""
        template = self._answered
        if template is not None and template.version == version:
            found = template.read(body)
            if found is not None:
                return found
        response = FETCH_CODEC.decode_response(FETCH_CODEC.answer.decode(body, version))
        self._answered = None
        if isinstance(response, FetchResponse) and response.is_plain:
            template = _ResponseTemplate(replace(response, records=None), version)
            if template.is_fixed and template.read(body) == response:
                self._answered = template
        return response


def _uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
