"""Answer to a follower's Fetch: received as any frame, and accepted by a leased follower, which builds the next one."""

from kraft_native.replica.answers import AnswerReceiver
from kraft_native.replica.leased_follower import LeasedFollower
from kraft_native.replica.template import Template

RECORDS = bytes(180)
FORM = Template(bytes(60), [(20, 8)])
TAIL = bytes(12)
NEXT = Template(bytes(120), [(8, 4), (60, 8), (80, 8)])


class Receiver(AnswerReceiver):
    def __init__(self):
        super().__init__(1 << 16, 1 << 20, 1 << 20)
        self.taken = 0

    def take_frame(self, _frame):
        self.taken += 1

    def receive(self, frame):
        self.get_buffer(-1)[:len(frame)] = frame
        self.buffer_updated(len(frame))


class Log:
    def take_back(self):
        return True

    def send_when_durable(self, _end_offset, _fd, _message):
        return True


def framed(correlation):
    body = correlation.to_bytes(4, "big") + b"\0" + FORM.write(1 << 40) + b"\xb5\x01" + RECORDS + TAIL
    return len(body).to_bytes(4, "big") + body


def test_any_frame(benchmark):
    receiver = Receiver()
    benchmark(receiver.receive, framed(1))
    assert receiver.taken


def test_an_answer_during_a_lease(benchmark):
    receiver, frames, taken = Receiver(), [framed(number) for number in range(1, 5001)], []
    follower = LeasedFollower(Log(), lambda records: len(records), taken.append)
    follower.begin(0, (1, b""))
    receiver.follow(follower, FORM, TAIL, NEXT, 1)
    benchmark.pedantic(lambda: receiver.receive(frames.pop(0)), rounds=5000)
    assert (receiver.taken, len(taken)) == (0, 5000)
