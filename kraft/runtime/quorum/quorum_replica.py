"""One replica of the metadata quorum in a process: its files, its core, its connections, and what it commits.

    quorum = QuorumReplica(config, ...)   # opens and reads the files
    quorum.start()                        # takes part
    quorum.serve(codec, ...)              # requests of other replicas and of tools, on the controller listener
    await quorum.close()                  # hands the leadership over when it leads
"""

import logging
import os
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final
from uuid import UUID

from kraft.config.node_config import Endpoint as ConfigEndpoint
from kraft.config.node_config import NodeConfig
from kraft.config.quorum_config import (
    AUTO_JOIN,
    Address,
    StaticVoter,
    bootstrap_servers,
    is_sole_controller,
    static_voters,
)
from kraft.controller.config_rules import TableRules
from kraft.controller.decision import ControllerSettings, Fencing, Steps
from kraft.log_dir import topic_id_in
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import MetadataImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.raft.config import RaftConfig
from kraft.raft.events import Event, VoteAnswered
from kraft.raft.messages import Request, Response
from kraft.raft.raft import Raft
from kraft.raft.ready import Answer, HardState
from kraft.raft.replica import Ports
from kraft.raft.types import NOBODY, Endpoint, ReplicaKey
from kraft.raft.voters import Assignment, Voter, VoterSet
from kraft.raft.wire import Codec
from kraft.recorder.entry import STATE, Entry
from kraft.recorder.ring import Recorder
from kraft.recorder.state import state_values
from kraft.recorder.words import text_of
from kraft.runtime.base.bounded_log import BoundedLog
from kraft.runtime.base.time_slices import WorkQueue
from kraft.runtime.net.broker_connections import Probes
from kraft.runtime.net.controller_channel import NEEDED
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.net.peers import Peers
from kraft.runtime.quorum.cluster_id import ClusterId
from kraft.runtime.quorum.metadata_machine import VOTE_KINDS, QuorumMetadata
from kraft.runtime.quorum.raft_driver import RaftDriver, SteadyClock
from kraft.runtime.quorum.raft_log import RaftLog
from kraft.runtime.quorum.raft_snapshots import RaftSnapshots
from kraft.runtime.quorum.recorder_file import RecorderFile
from kraft.runtime.quorum.snapshot_keeper import SnapshotKeeper
from kraft.runtime.quorum.start_mark import WAYS_OUT, check_metadata_log
from kraft.runtime.quorum.state_file import QuorumStateFile, read_quorum_state, write_quorum_state
from kraft.runtime.storage.formatting import random_id
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME, TOPIC_ID, MetadataLogSettings
from kraft.runtime.storage.snapshot_files import remove_leftovers
from kraft.security.authorizer import Authorizer, authorizer_of
from kraft.structs import immutable
from kraft_native.base.errors import CorruptFileError, CorruptLogError, OperationError
from kraft_native.facade.log import Log
from kraft_native.log.flusher import Flusher
from kraft_native.segment import checkpoints

log = logging.getLogger(__name__)

RESIGN_SECONDS: Final = 2.0
FETCH_WAIT_MS_MAX: Final = 500
START_GRACE_MS: Final = 100
DIRECTORY_MODE: Final = 0o750
CLIENT_ID: Final = "raft-client-{}"


class NotAVoterError(OperationError):
    """This disk belongs to no voter of the quorum, and no other controller is known: no leader would ever be found."""


@immutable
class Member:
    """Identity of this node. `endpoints` are its controller listeners as others reach them, none for a broker.
    `cluster_id` is empty where the first leader of the quorum creates it."""

    cluster_id: str
    directory_id: UUID
    endpoints: tuple[ConfigEndpoint, ...]


class QuorumReplica:
    """One replica, on the running loop. `on_failure` is called once, with what makes the node stop.

    Raises what `Log` and the readers of the metadata log's files raise, and `NotAVoterError`. `clock` never goes back.
    """

    def __init__(self, config: NodeConfig, member: Member, settings: ControllerSettings,
                 log_settings: MetadataLogSettings, flusher: Flusher, dialer: Dialer,
                 on_failure: Callable[[BaseException], object], *, log_dir_locked: bool = False,
                 clock: Callable[[], int] | None = None) -> None:
        self.config = config
        self.dialer = dialer
        self.clock = clock or SteadyClock()
        self.directory: Path = config.metadata_log_dir / DIRECTORY_NAME
        self._settings = log_settings
        self._on_failure = on_failure
        self._answers: dict[int, Callable[[Response], None]] = {}
        self._tokens = 0
        self._takes_part = False
        self.cluster_id = ClusterId(member.cluster_id, config.metadata_log_dir, is_static=bool(self._static_ids))
        self._mark = (check_metadata_log(config.metadata_log_dir, config.log_dirs, is_static=len(self._static_ids) > 1)
                      if config.is_controller else None)
        self.log = Log(self.directory, log_settings.log_config(), flusher=flusher,
                       log_dir_locked=log_dir_locked)
        self._recorder_file = RecorderFile(self.directory)
        self.recorder = Recorder(config.node_id, self._recorder_file.write)
        """Flight recorder of this replica."""
        self.other_cluster_address = ""
        """Address of a node that replied that this node belongs to another cluster; empty without one."""
        self._refusals = BoundedLog(log, self.clock, period_ms=60_000, lines_max=1,
                                    omitted="%d more requests of this node were refused")
        self.work = WorkQueue(self._work_failed, self._worked)
        """Work of replay and of the controller that requests of clients must not delay."""
        self._acl_changes = WorkQueue(on_failure)
        """Work on committed changes of ACLs, in their order; few of them are done at once."""
        try:
            self._open_log()
            self.metadata = QuorumMetadata(settings, TableRules(config.texts), self.raft_log, self.snapshots,
                                           lambda: random_id(uuid.uuid4), self.clock)
            hard_state = self._read_hard_state()
            self._written_epoch = hard_state.epoch
            self.raft = Raft(
                raft_config(config, member), hard_state,
                Ports(self.raft_log, self.snapshots, random.SystemRandom(), self._trace), self.clock())
            self.metadata.run_replay = self.work.add
            self.metadata.on_fencing = self._fenced
            self.metadata.on_failure = on_failure
            self.metadata.on_assignment = self._check_cluster
            self.metadata.subscribe(self._note_records)
            self.authorizer = authorizer_of(config.values)
            """Decides what clients may do, by the newest committed entries; None: everything is allowed."""
            if self.authorizer is not None:
                self._authorize(self.authorizer)
            self._check_place()
        except BaseException as error:
            self._recorder_file.close()
            self.log.close()
            if isinstance(error, CorruptLogError):
                raise CorruptFileError(f"{error}; committed metadata is missing. {WAYS_OUT}") from error
            raise
        self._recorder_file.state = self.recorded_state
        self.peers = Peers(CLIENT_ID.format(config.node_id), self._deliver, dialer)
        self.driver = RaftDriver(
            self.raft, self.raft_log, self.metadata, write_hard_state=self._write_hard_state, sender=self.peers,
            answer=self._answer, clock=self.clock, on_failure=on_failure)
        self.peers.end_lease = self.driver.end_lease
        self.metadata.driver = self.driver
        self.keeper = SnapshotKeeper(log_settings, self.directory, self.raft_log, self.snapshots, self.metadata,
                                     self.driver, self.clock, dialer, on_failure)
        """Keeper of the snapshots."""
        self.probes = Probes(self.metadata)

    def _open_log(self) -> None:
        os.chmod(self.directory, DIRECTORY_MODE)       # also where Kafka created it: it holds keys of SCRAM credentials
        remove_leftovers(self.directory)
        if topic_id_in(self.directory) is None:
            checkpoints.write_partition_metadata(self.directory, TOPIC_ID)
        self.raft_log = RaftLog(self.log)
        self.snapshots = RaftSnapshots(self.directory, self.raft_log)
        latest = self.snapshots.latest()
        if latest is not None and not self.raft_log.continues(latest):
            # The crash came between the snapshot from the leader and the log that begins behind it. The log on disk may
            # be longer, but it is that of a leader that was overtaken.
            self.raft_log.restart_at(latest)
        start = self.log.log_start_offset
        epoch = next((each.epoch for each in self.snapshots.ids if each.end_offset == start), 0)
        self.raft_log = RaftLog(self.log, epoch)
        self.snapshots = RaftSnapshots(self.directory, self.raft_log, self.work.add, self._snapshot_checked)
        self.snapshots.remove_before_log()
        self.log.flush()               # the core assumes that what it finds is durable

    def _snapshot_checked(self) -> None:
        self.driver.tick_soon()

    def _check_place(self) -> None:
        replica = self.raft.replica
        key = replica.config.key
        if self._mark is not None and not replica.is_only_voter:
            self._mark.check_vote(self._written_epoch, self.raft_log.end.epoch)
        if is_sole_controller(self.config) and not replica.may_campaign and replica.voters.ids in ((), (key.node_id,)):
            raise NotAVoterError(
                f"{self.directory}: node {key.node_id} with directory id {key.directory_id} does not vote, and no "
                f"other controller is known; voters: {', '.join(map(str, replica.voters.voters)) or 'none'}")

    @property
    def _static_ids(self) -> tuple[int, ...]:
        return tuple(voter.node_id for voter in static_voters(self.config))

    def start(self) -> None:
        """Take part in the quorum from now on. Raises `ForeignClusterError` when its snapshot is of another cluster."""
        replica = self.raft.replica
        self._check_cluster(replica.history.before(replica.high_watermark))
        self.driver.start()
        self.keeper.start()
        self._takes_part = True

    async def hand_over(self) -> None:
        """Give the leadership to another voter, if it is held and one exists, and continue as a follower."""
        if self._takes_part and len(self.raft.replica.voters.ids) > 1:
            await self.driver.resign(RESIGN_SECONDS)

    async def close(self) -> None:
        """Hand the leadership over when it is held, and release everything. May be called again."""
        self.keeper.close()
        if self._takes_part:
            self._takes_part = False
            await self.driver.resign(RESIGN_SECONDS)
        self.driver.close()
        self.work.close()
        self._acl_changes.close()
        self.probes.close()
        self.peers.close()
        await self.keeper.ended()
        self.snapshots.close()
        if self._mark is not None:
            self._mark.close(self._written_epoch)
        if self._recorder_file.is_open:
            self.recorder.flush()
            self._recorder_file.write(self.recorded_state())
            self._recorder_file.close()
        self.log.close()

    def _worked(self) -> None:
        self.driver.on_iteration()

    def _work_failed(self, error: BaseException) -> None:
        """Stop as the driver does: nothing is sent after a state machine that failed half-way."""
        self.driver.close()
        self._on_failure(error)

    # --- incoming requests

    @property
    def can_answer(self) -> bool:
        """Return whether the core accepts requests: from the start until it is closed or has failed."""
        return self.driver.is_running

    def serve(self, codec: Codec, source: int, request: Request, version: int,
              answer: Callable[[Message], None]) -> None:
        """Pass a request to the core. `source` identifies the connection. `answer` is called with the response now or
        later, or never when the node stops."""
        self.submit(source, request, lambda response: answer(codec.encode_response(response, version)))

    def submit(self, source: int, request: Request, answer: Callable[[Response], None]) -> None:
        """Do the same as `serve`, for a caller with its own codec."""
        self._tokens += 1
        self._answers[self._tokens] = answer
        self.driver.step(source, self._tokens, request)

    def _answer(self, answer: Answer) -> None:
        self._answers.pop(answer.correlation)(answer.response)

    def _deliver(self, node_id: int, correlation: int, message: object) -> None:
        if isinstance(message, Response) and message.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._note_other_cluster(self.raft.replica.address_of(node_id))
        if isinstance(message, Response) and message.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            self._refusals.put("controller %d does not let this node act for the cluster: %s", node_id, NEEDED)
        self.driver.step(node_id, correlation, message)  # type: ignore[arg-type]

    def _note_other_cluster(self, by: Endpoint | None) -> None:
        """Note that another node places this one in a foreign cluster. The other node may be the foreign one, so this
        node continues; but it may never find a leader."""
        if by is not None and not self.other_cluster_address:
            self.other_cluster_address = f"{by.host}:{by.port}"
            log.warning("the controller at %s is of another cluster than this node, whose cluster id is %s",
                        self.other_cluster_address, self.raft.replica.cluster_id)

    def _check_cluster(self, committed: Assignment) -> None:
        was_known = bool(self.cluster_id.value)
        self.cluster_id.committed(committed)
        if not was_known and self.cluster_id.value:
            self.metadata.use_cluster_id(self.cluster_id.value)

    # --- quorum-state

    def _read_hard_state(self) -> HardState:
        state = read_quorum_state(self.directory)
        if state is None:
            return HardState()
        voted = None if state.voted_id == NOBODY else ReplicaKey(state.voted_id, state.voted_directory_id)
        return HardState(state.leader_epoch, voted, state.leader_id)

    def _write_hard_state(self, state: HardState) -> None:
        version = 0 if self._static_ids and self.raft.replica.history.latest.kraft_version == 0 else 1
        voted = state.voted
        write_quorum_state(self.directory, QuorumStateFile(
            leader_id=state.leader_id, leader_epoch=state.epoch, voted_id=voted.node_id if voted else NOBODY,
            voted_directory_id=voted.directory_id if voted else UUID(int=0), version=version,
            voters=() if version else self._static_ids))
        self._written_epoch = state.epoch
        if self._mark is not None:
            self._mark.note(records=False)

    def _authorize(self, authorizer: Authorizer) -> None:
        """Decide by the entries of each committed image. The first one counts that has all that is committed."""
        metadata = self.metadata
        authorizer.load(metadata.image, is_complete=False)

        def apply(delta: MetadataDelta, image: MetadataImage) -> Steps:
            yield from authorizer.changed_steps(delta)
            if image.offset + 1 >= metadata.high_watermark:
                authorizer.complete()

        metadata.subscribe(lambda delta, image: self._acl_changes.add(apply(delta, image)))

    def _note_records(self, _delta: MetadataDelta, _image: MetadataImage) -> None:
        if self._mark is not None:
            self._mark.note(records=True)

    def _trace(self, now_ms: int, event: Event) -> None:
        self.recorder.record(now_ms, event)
        if isinstance(event, VoteAnswered):
            self.metadata.vote_answers[VOTE_KINDS[event.pre_vote]] += 1
        if log.isEnabledFor(logging.DEBUG):
            log.debug("raft: %s", text_of(event))

    def _fenced(self, fencing: Fencing, now_ms: int) -> None:
        self.recorder.record_fencing(now_ms, fencing.broker_id, fencing.because)

    def recorded_state(self) -> Entry:
        """State of this replica now, as an entry of the flight recorder."""
        now_ms, values, controller = self.clock(), state_values(self.raft), self.metadata.controller
        if controller.active:
            values["brokers"] = [
                {"broker": broker_id, "contact_ms": now_ms - each.last_contact_ms, "replayed": each.metadata_offset}
                for broker_id, each in controller.sessions.by_id.items()]
        return self.recorder.unstored(now_ms, STATE, values)


def raft_config(config: NodeConfig, member: Member) -> RaftConfig:
    """Settings of the core, from those of the node."""
    listener = config.controller_listener_names[0]

    def number(name: str) -> int:
        return max(1, config.integer(name))

    def endpoint(address: Address) -> Endpoint:
        return Endpoint(listener, address.host, address.port)

    own = tuple(Endpoint(each.listener, each.host, each.port) for each in member.endpoints)

    def voter(static: StaticVoter) -> Voter:
        """Voter of a static entry. An entry without an address is this node, or a voter that announces its own."""
        if static.address is not None:
            return Voter(ReplicaKey(static.node_id), (endpoint(static.address),))
        return Voter(ReplicaKey(static.node_id), own if static.node_id == config.node_id else ())

    fetch_timeout_ms = number("controller.quorum.fetch.timeout.ms")
    return RaftConfig(
        key=ReplicaKey(config.node_id, member.directory_id), cluster_id=member.cluster_id or None,
        can_vote=config.is_controller, auto_join=bool(config[AUTO_JOIN]),
        endpoints=own,
        bootstrap=tuple(map(endpoint, bootstrap_servers(config))),
        static_voters=VoterSet.of(*map(voter, static_voters(config))),
        election_timeout_ms=number("controller.quorum.election.timeout.ms"),
        election_backoff_max_ms=number("controller.quorum.election.backoff.max.ms"),
        fetch_timeout_ms=fetch_timeout_ms, request_timeout_ms=number("controller.quorum.request.timeout.ms"),
        retry_backoff_ms=number("controller.quorum.retry.backoff.ms"),
        fetch_max_bytes=number("controller.quorum.fetch.max.bytes"),
        fetch_snapshot_max_bytes=number("controller.quorum.fetch.snapshot.max.bytes"),
        fetch_max_wait_ms=min(FETCH_WAIT_MS_MAX, fetch_timeout_ms // 2), start_grace_ms=START_GRACE_MS)
