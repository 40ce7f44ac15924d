"""Control records of the metadata log that concern the quorum, and their form as Kafka's messages.

The first record of an epoch is the leader's LeaderChange. KRaftVersion and Voters follow where the log does not have
them yet. TargetVoters and ClusterId, which the KIPs have and Kafka's VotersRecord lacks, are its tagged fields 100 and
101.
"""


from kraft.protocol.message import Message
from kraft.protocol.messages.kraft_version_record import KRaftVersionRecord
from kraft.protocol.messages.leader_change_message import LeaderChangeMessage
from kraft.protocol.messages.leader_change_message import Voter as LeaderVoter
from kraft.protocol.messages.voters_record import Endpoint as WireEndpoint
from kraft.protocol.messages.voters_record import KRaftVersionFeature, TargetVoter, VotersRecord
from kraft.protocol.messages.voters_record import Voter as WireVoter
from kraft.raft.types import Endpoint, ReplicaKey
from kraft.raft.voters import VersionRange, Voter, VoterHistory, VoterSet
from kraft.structs import immutable


@immutable
class LeaderChange:
    """First record of an epoch: the leader, the voters, and those that voted for the leader."""

    leader_id: int
    voters: tuple[ReplicaKey, ...]
    granting: tuple[ReplicaKey, ...]


@immutable
class KRaftVersion:
    """Level of `kraft.version` from this offset on."""

    level: int


@immutable
class Voters:
    """Voters from this offset on."""

    voters: VoterSet


ControlRecord = LeaderChange | KRaftVersion | Voters


def apply_control(history: VoterHistory, offset: int, record: ControlRecord) -> None:
    if isinstance(record, KRaftVersion):
        history.set_version(offset, record.level)
    elif isinstance(record, Voters):
        history.set_voters(offset, record.voters)


def to_message(record: ControlRecord) -> Message:
    """Return Kafka's message for a control record, in version 0."""
    if isinstance(record, LeaderChange):
        return LeaderChangeMessage(
            version=0, leader_id=record.leader_id,
            voters=[LeaderVoter(voter_id=key.node_id) for key in record.voters],
            granting_voters=[LeaderVoter(voter_id=key.node_id) for key in record.granting])
    if isinstance(record, KRaftVersion):
        return KRaftVersionRecord(version=0, kraft_version=record.level)
    return voters_record(record.voters)


def of_message(message: Message) -> ControlRecord | None:
    """Return the control record of a message; None for a message that does not concern the quorum."""
    if isinstance(message, LeaderChangeMessage):
        return LeaderChange(
            message.leader_id,
            tuple(ReplicaKey(voter.voter_id, voter.voter_directory_id) for voter in message.voters),
            tuple(ReplicaKey(voter.voter_id, voter.voter_directory_id) for voter in message.granting_voters))
    if isinstance(message, KRaftVersionRecord):
        return KRaftVersion(message.kraft_version)
    if isinstance(message, VotersRecord):
        return Voters(voter_set(message))
    return None


def voters_record(voters: VoterSet) -> VotersRecord:
    targets = None if voters.targets is None else [
        TargetVoter(voter_id=key.node_id, voter_directory_id=key.directory_id) for key in voters.targets]
    return VotersRecord(version=0, target_voters=targets, cluster_id=voters.cluster_id, voters=[
        WireVoter(
            voter_id=voter.key.node_id, voter_directory_id=voter.key.directory_id,
            endpoints=[WireEndpoint(name=each.name, host=each.host, port=each.port) for each in voter.endpoints],
            kraft_version_feature=KRaftVersionFeature(
                min_supported_version=voter.kraft_versions.lowest, max_supported_version=voter.kraft_versions.highest))
        for voter in voters.voters])


def voter_set(record: VotersRecord) -> VoterSet:
    voters = [
        Voter(
            ReplicaKey(voter.voter_id, voter.voter_directory_id),
            tuple(Endpoint(each.name, each.host, each.port) for each in voter.endpoints),
            VersionRange(voter.kraft_version_feature.min_supported_version,
                         voter.kraft_version_feature.max_supported_version))
        for voter in sorted(record.voters, key=lambda voter: voter.voter_id)]
    targets = None if record.target_voters is None else tuple(
        ReplicaKey(each.voter_id, each.voter_directory_id) for each in record.target_voters)
    return VoterSet(tuple(voters), targets, record.cluster_id)
