"""Headers of requests and responses.

The version of a request's header follows from the API and version in it; that of a response's header from the request.
Version 1 of a request header has key int16, version int16, correlation id int32 and client id (in the old encoding);
version 2 adds tagged fields. Version 0 of a response header is the correlation id; version 1 adds tagged fields.
"""

from typing import NamedTuple

from kraft.protocol.api import Api
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.messages.request_header import RequestHeader
from kraft.protocol.messages.response_header import ResponseHeader
from kraft_native.base.errors import MalformedMessageError

Buffer = bytes | bytearray | memoryview


class Request(NamedTuple):
    """Received request: `body` is a view of the bytes after the header, not decoded."""

    api: Api
    header: RequestHeader
    body: memoryview


def decode_request(frame: Buffer) -> Request:
    """Split the frame of a request (without its length). Whether its version is served is not checked.

    Raises `MalformedMessageError`, also for a key that no API has.
    """
    view = memoryview(frame)
    key = int.from_bytes(view[:2], "big", signed=True)
    version = int.from_bytes(view[2:4], "big", signed=True)
    api = API_BY_KEY.get(key)
    if len(view) < 4 or api is None:
        raise MalformedMessageError(f"a request of {len(view)} bytes for API {key}, which is not known")
    header_version = api.request_header_version(version)
    r = RequestHeader.reader(view, header_version)
    return Request(api, RequestHeader.read(r, header_version), view[r.position:])


def encode_request_header(api: Api, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the bytes that precede the body of a request."""
    header = RequestHeader(request_api_key=api.key, request_api_version=version, correlation_id=correlation_id,
                           client_id=client_id)
    return header.encode(api.request_header_version(version))


def decode_response_header(frame: Buffer, api: Api, version: int) -> tuple[ResponseHeader, memoryview]:
    """Split the frame of a response (without its length) to a request of `version`: the header and a view of the body.

    An ApiVersions response to a version that the server does not support has a body of version 0: its error code says
    so.
    """
    view = memoryview(frame)
    header_version = api.response_header_version(version)
    r = ResponseHeader.reader(view, header_version)
    return ResponseHeader.read(r, header_version), view[r.position:]


def encode_response_header(api: Api, version: int, correlation_id: int) -> bytes:
    """Return the bytes that precede the body of a response to a request of `version`."""
    return ResponseHeader(correlation_id=correlation_id).encode(api.response_header_version(version))
