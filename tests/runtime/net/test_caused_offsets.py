"""Offsets of records that a forwarded request caused, in the answer's envelope."""

from kraft.protocol.messages.envelope_response import EnvelopeResponse
from kraft.runtime.net.caused_offsets import PAIRS_MAX, TAG, decode_offsets, encode_offsets


def test_offsets_come_back_from_the_wire() -> None:
    offsets = ((3, 9), (12, 1 << 62))
    data = EnvelopeResponse(response_data=b"x", unknown_tags=encode_offsets(offsets)).encode(0)
    assert decode_offsets(EnvelopeResponse.decode(data, 0).unknown_tags) == offsets
    assert encode_offsets(()) == ()
    assert decode_offsets(EnvelopeResponse(response_data=b"x").unknown_tags) == ()


def test_what_another_node_may_send_is_bounded() -> None:
    assert decode_offsets(((TAG, b"\0" * 15),)) == ()
    assert decode_offsets(((TAG, b"\0" * 16 * (PAIRS_MAX + 1)),)) == ()
    assert decode_offsets(((TAG, b"\xff" * 16),)) == ()
    assert len(encode_offsets(tuple((n, n) for n in range(2 * PAIRS_MAX)))[0][1]) == 16 * PAIRS_MAX
