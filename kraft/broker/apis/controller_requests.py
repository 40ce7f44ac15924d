"""Requests that the active controller decides; a broker passes them on: CreateTopics (19), DeleteTopics (20),
CreatePartitions (37), ElectLeaders (43), AlterPartitionReassignments (45),
ListPartitionReassignments (46), AlterClientQuotas (49), AlterUserScramCredentials (51), UpdateFeatures (57),
DescribeQuorum (55), UnregisterBroker (64), AssignReplicasToDirs (73, on a controller's listener only),
AddRaftVoter (80), RemoveRaftVoter (81).
"""

from kraft.broker.api import Answer, RequestContext, Steps, serves
from kraft.broker.broker import Broker
from kraft.protocol.message import Message


@serves("CreateTopics", "DeleteTopics", "CreatePartitions", "ElectLeaders", "AlterPartitionReassignments",
        "ListPartitionReassignments", "AlterClientQuotas", "AlterUserScramCredentials", "UpdateFeatures",
        "DescribeQuorum", "UnregisterBroker", "AssignReplicasToDirs", "AddRaftVoter", "RemoveRaftVoter")
def pass_on(broker: Broker, request: Message, context: RequestContext, answer: Answer) -> Steps:
    """The controller's answer is the broker's."""
    return broker.submit_steps(request, context, answer)
