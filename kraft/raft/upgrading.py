"""Upgrade from static voters to voters that are records: kraft.version is raised while the quorum runs (KIP-853).

With static voters the log holds no disks and no addresses. So each voter reports them to its leader (UpdateRaftVoter),
which keeps them in memory. Once all have, one control batch holds the new version and the voters as they reported
themselves. The ids stay, so any majority before and any after it have a voter in common.
"""

from kraft.protocol.error_codes import ErrorCode
from kraft.raft import membership
from kraft.raft.errors import UpgradeRefusedError
from kraft.raft.events import VersionRaised
from kraft.raft.messages import ChangeVotersResponse, UpdateVoterRequest
from kraft.raft.records import KRaftVersion, Voters
from kraft.raft.replica import Replica
from kraft.raft.roles import Leader
from kraft.raft.voters import RECONFIGURABLE, Voter, VoterSet


def handle_update(replica: Replica, source: int, correlation: int, request: UpdateVoterRequest) -> None:
    """Handle UpdateRaftVoter, whether the voters are in the log or static."""
    leader = replica.role
    if replica.history.latest.kraft_version >= RECONFIGURABLE or not isinstance(leader, Leader):
        membership.handle_update(replica, source, correlation, request)
        return
    refusal = _learn(replica, leader, request)
    if refusal is None:
        replica.answer(source, correlation, ChangeVotersResponse())
    else:
        membership.refuse(replica, source, correlation, refusal)


def _learn(replica: Replica, leader: Leader, request: UpdateVoterRequest) -> membership.Refusal | None:
    """Record the disk, the address and the supported versions that a static voter reports."""
    error = replica.leader_error(request, request.epoch)
    if error is not ErrorCode.NONE:
        return error, error.message
    if replica.voters.find(request.voter.key.node_id) is None:
        return ErrorCode.VOTER_NOT_FOUND, f"{request.voter.key} is no voter"
    if not request.voter.endpoints:
        return ErrorCode.INVALID_REQUEST, "a voter needs an address"
    leader.reported[request.voter.key.node_id] = request.voter
    return None


def upgrade(replica: Replica, leader: Leader, level: int) -> int:
    """Append the version and the voters, which are in force at once; return the log end behind them. When not every
    voter is known to be ready, raise `UpgradeRefusedError` and append nothing."""
    before = replica.voters
    config = replica.config
    ready = {**leader.reported, config.node_id: Voter(config.key, config.endpoints, config.kraft_versions)}
    missing = [node_id for node_id in before.ids if node_id not in ready]
    unable = [node_id for node_id in before.ids
              if node_id in ready and not ready[node_id].kraft_versions.lowest <= level <= (
                  ready[node_id].kraft_versions.highest)]
    if level <= replica.history.latest.kraft_version:
        raise UpgradeRefusedError(f"kraft.version is at {replica.history.latest.kraft_version}, and does not go back")
    if not leader.is_established or not membership.is_settled(replica):
        raise UpgradeRefusedError("the leader has only begun to lead; try again")
    if missing or not config.endpoints:
        raise UpgradeRefusedError(f"voters {missing or [config.node_id]} have not reported their address and disk yet")
    if unable:
        raise UpgradeRefusedError(f"voters {unable} do not support kraft.version {level}")
    for voter in before.voters:
        progress = leader.progress.pop(voter.key, None)
        if progress is not None:
            leader.progress[ready[voter.key.node_id].key] = progress
    replica.note(VersionRaised(level))
    after = membership.founding(replica, VoterSet.of(*(ready[node_id] for node_id in before.ids)))
    replica.append_control([KRaftVersion(level), Voters(after)])
    return replica.log.end.offset
