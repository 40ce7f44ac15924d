"""Requests that a broker passes on to the active controller, which decides them:

- CreateTopics (19), DeleteTopics (20), CreatePartitions (37), ElectLeaders (43).
- AlterPartitionReassignments (45), ListPartitionReassignments (46).
- AlterClientQuotas (49), AlterUserScramCredentials (51), UpdateFeatures (57).
- DescribeQuorum (55), AddRaftVoter (80), RemoveRaftVoter (81).
- UnregisterBroker (64), AssignReplicasToDirs (73, on a controller's listener only).
"""

from kraft.broker.api import Answer, RequestContext, Steps
from kraft.broker.broker import Broker
from kraft.protocol.message import Message


def serve(broker: Broker, request: Message, context: RequestContext, answer: Answer) -> Steps:
    """Answer with the controller's response."""
    return broker.submit_steps(request, context, answer)
