"""Replies without a connection: one outcome each, reported once."""

import pytest

from kraft.protocol.api_keys import ApiKey
from kraft_native.request.reply import Reply, ReplySink, RequestHandler, reply_header


class Collector(ReplySink):
    def __init__(self) -> None:
        self.replies: list[Reply] = []

    def reply_finished(self, reply: Reply) -> int:
        self.replies.append(reply)
        return 0


@pytest.fixture
def sink() -> Collector:
    return Collector()


def a_reply(sink: Collector) -> Reply:
    return Reply(sink, ApiKey.FETCH, 12, -7, b"client")


def test_a_new_reply_says_whose_it_is(sink: Collector) -> None:
    reply = a_reply(sink)
    assert (reply.api_key, reply.api_version) == (ApiKey.FETCH, 12)
    assert (reply.correlation_id, reply.client_id) == (-7, b"client")
    assert not (reply.answered or reply.skipped or reply.refused or reply.abandoned)
    assert reply.parts is None and reply.reason is None


def test_parts_reach_the_sink_as_they_are(sink: Collector) -> None:
    reply = a_reply(sink)
    parts = [b"header", memoryview(b"body")]
    reply.finish(parts)
    assert sink.replies == [reply]
    assert reply.parts is parts and reply.answered


@pytest.mark.parametrize(("version", "header"), [(0, b"\xff\xff\xff\xf9"), (1, b"\xff\xff\xff\xf9\x00")])
def test_answer_puts_the_response_header(sink: Collector, version: int, header: bytes) -> None:
    reply = a_reply(sink)
    reply.answer(b"body", version)
    assert reply.parts == [header, b"body"]
    assert reply_header(-7, version) == header


def test_skip_and_refuse_carry_no_parts(sink: Collector) -> None:
    skipped, refused = a_reply(sink), a_reply(sink)
    skipped.skip()
    refused.refuse("version")
    assert skipped.skipped and skipped.parts is None
    assert refused.refused and refused.parts is None and refused.reason == "version"
    assert sink.replies == [skipped, refused]


@pytest.mark.parametrize("first", ["finish", "skip", "refuse"])
@pytest.mark.parametrize("second", ["finish", "answer", "skip", "refuse"])
def test_a_second_outcome_is_a_bug_of_ours(sink: Collector, first: str, second: str) -> None:
    reply = a_reply(sink)
    arguments = {"finish": ([b""],), "answer": (b"", 0), "skip": (), "refuse": ()}
    getattr(reply, first)(*arguments[first])
    with pytest.raises(AssertionError, match="answered twice"):
        getattr(reply, second)(*arguments[second])
    assert len(sink.replies) == 1


def test_bad_arguments_leave_the_reply_open(sink: Collector) -> None:
    reply = a_reply(sink)
    with pytest.raises(TypeError):
        reply.finish(None)
    with pytest.raises(ValueError, match="header_version must be 0 or 1, not 2"):
        reply.answer(b"", 2)
    with pytest.raises(ValueError, match="header_version must be 0 or 1, not 2"):
        reply_header(0, 2)
    reply.finish([b""])
    assert sink.replies == [reply]


def test_abstract_classes_say_what_is_missing() -> None:
    with pytest.raises(AssertionError, match="ReplySink does not say what happens to replies"):
        ReplySink().reply_finished(Reply(ReplySink(), ApiKey.PRODUCE, 0, 0))
    with pytest.raises(AssertionError, match="RequestHandler does not say how"):
        RequestHandler().handle_bytes(Reply(ReplySink(), ApiKey.PRODUCE, 0, 0), b"")


def test_replies_are_created_again(sink: Collector) -> None:
    """Replies come from a free list: nothing of an earlier one shows in the next."""
    for _ in range(3):
        reply = a_reply(sink)
        reply.refuse("version")
        sink.replies.clear()
        del reply
        fresh = Reply(sink, ApiKey.PRODUCE, 0, 0)
        assert fresh.client_id is None and fresh.reason is None and not fresh.refused
