"""DescribeRecorder (key 1002, kraft's own): the events of this broker's replicas. See docs/internals/recorder.md."""

from kraft.broker.api import Answer, RequestContext
from kraft.broker.broker import Broker
from kraft.protocol.messages.describe_recorder_request import DescribeRecorderRequest
from kraft.protocol.messages.describe_recorder_response import DescribeRecorderResponse


def describe_recorder(broker: Broker, request: DescribeRecorderRequest, _context: RequestContext,
                      answer: Answer) -> None:
    """Answer with the last entries, and with the broker's state as the last of them."""
    answer(DescribeRecorderResponse(node_id=broker.node_id, entries=broker.recorder.lines(request.max_entries)))
