"""Active controller as a machine without input and output: requests and commits in, records and answers out.

    controller = Controller(settings, rules, port, replayer, new_id)
    controller.submit(request, version, now_ms, answer)   # answer(response) is called, now or when committed
    controller.committed(end_offset, now_ms)              # from the log
    controller.broker_disconnected(id, epoch, now_ms)     # the connection that it sends heartbeats on was closed
    controller.broker_probed(id, epoch, found, now_ms)    # the result of `on_probe`
    controller.tick(now_ms)                               # no later than controller.deadline_ms

Decisions are based on all earlier decisions, committed or not, so they need not wait for each other. A decision becomes
visible outside, as answer and as image, only once it is committed, in order.

Deterministic: time, ids and commits come from outside. Single-threaded. An exception from a call, except for bad
arguments, is fatal: the node must stop.

A decision about very many partitions is made in steps: for a request, and when the controller fences a broker or holds
elections. Other appends wait until it is done, so a decision sees the same state from its first step to its last.
Records that must take effect together are still appended in one batch. The others are appended in batches of
`RECORDS_PER_BATCH_MAX`, each while the next one is decided.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from kraft.controller import (
    acls,
    alter_partition,
    brokers,
    client_quotas,
    configs,
    delegation_tokens,
    directories,
    elections,
    features,
    partitions,
    producer_ids,
    quorum_view,
    reassignments,
    scram,
    topics,
)
from kraft.controller.activation import activation_records
from kraft.controller.commit import CommitPort
from kraft.controller.decision import (
    RECORDS_PER_BATCH_MAX,
    RECORDS_PER_DECISION_MAX,
    ConfigRules,
    Context,
    ControllerSettings,
    Decision,
    Fencing,
    Kept,
    RefusedError,
    Steps,
    parts,
)
from kraft.controller.mutation_quotas import UNLIMITED, MutationCharge, MutationQuotas
from kraft.controller.rounds import Rounds
from kraft.controller.sessions import BrokerSessions, Doubt, Found
from kraft.deadlines import NEVER_MS
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import RECOVERING, BrokerRegistration, MetadataImage
from kraft.metadata.replay import Replayer
from kraft.metadata.snapshot import Record
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from kraft.protocol.messages.no_op_record import NoOpRecord
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.record_frames import encode_record
from kraft.security.principal import ANONYMOUS, Client
from kraft.steps import finish
from kraft.structs import mutable
from kraft_native.base.errors import InvalidArgumentError

LEADER_CHANGED: Final = "the leader of the metadata log changed"
OWN_WORK: Final = ApiKey.BROKER_HEARTBEAT
"""API key of work that no request caused."""

Answer = Callable[[Message], None]
ImageListener = Callable[[MetadataDelta, MetadataImage], None]


class Handler(NamedTuple):
    """Decision function of one kind of request, at once or in steps, and the function that builds its response when the
    whole request is refused."""

    decide: Callable[[Context, Any], Decision[Message] | Generator[None, None, Decision[Message]]]
    refuse: Callable[[Any, ErrorCode, str | None], Message]


HANDLERS: Final[dict[int, Handler]] = {
    ApiKey.ALLOCATE_PRODUCER_IDS: Handler(
        producer_ids.allocate_producer_ids, producer_ids.allocate_producer_ids_refused),
    ApiKey.ALTER_CLIENT_QUOTAS: Handler(client_quotas.alter_client_quotas, client_quotas.alter_client_quotas_refused),
    ApiKey.ALTER_CONFIGS: Handler(configs.alter_configs, configs.alter_configs_refused),
    ApiKey.ALTER_PARTITION: Handler(alter_partition.alter_partition, alter_partition.alter_partition_refused),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Handler(
        reassignments.alter_partition_reassignments, reassignments.alter_partition_reassignments_refused),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Handler(
        scram.alter_user_scram_credentials, scram.alter_user_scram_credentials_refused),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Handler(
        directories.assign_replicas_to_dirs, directories.assign_replicas_to_dirs_refused),
    ApiKey.BROKER_HEARTBEAT: Handler(brokers.broker_heartbeat, brokers.broker_heartbeat_refused),
    ApiKey.BROKER_REGISTRATION: Handler(brokers.register_broker, brokers.broker_registration_refused),
    ApiKey.CONTROLLER_REGISTRATION: Handler(brokers.register_controller, brokers.controller_registration_refused),
    ApiKey.CREATE_ACLS: Handler(acls.create_acls, acls.create_acls_refused),
    ApiKey.CREATE_DELEGATION_TOKEN: Handler(
        delegation_tokens.create_delegation_token, delegation_tokens.create_delegation_token_refused),
    ApiKey.CREATE_PARTITIONS: Handler(partitions.create_partitions, partitions.create_partitions_refused),
    ApiKey.CREATE_TOPICS: Handler(topics.create_topics, topics.create_topics_refused),
    ApiKey.DELETE_ACLS: Handler(acls.delete_acls, acls.delete_acls_refused),
    ApiKey.DELETE_TOPICS: Handler(topics.delete_topics, topics.delete_topics_refused),
    ApiKey.ELECT_LEADERS: Handler(elections.elect_leaders, elections.elect_leaders_refused),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Handler(
        delegation_tokens.expire_delegation_token, delegation_tokens.expire_delegation_token_refused),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Handler(
        configs.incremental_alter_configs, configs.incremental_alter_configs_refused),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Handler(
        reassignments.list_partition_reassignments, reassignments.list_partition_reassignments_refused),
    ApiKey.RENEW_DELEGATION_TOKEN: Handler(
        delegation_tokens.renew_delegation_token, delegation_tokens.renew_delegation_token_refused),
    ApiKey.UNREGISTER_BROKER: Handler(brokers.unregister_broker, brokers.unregister_broker_refused),
    ApiKey.UPDATE_FEATURES: Handler(features.update_features, features.update_features_refused),
}


class _Waiting(NamedTuple):
    """An answer that waits for a commit."""

    handler: Handler
    request: Message
    response: Message
    answer: Answer


@mutable
class _Pending:
    """An appended batch that is not committed yet, with the images and answers that its commit releases."""

    end_offset: int
    visible: list[tuple[MetadataDelta, MetadataImage]]
    waiting: list[_Waiting]


def at_once(_key: int, steps: Steps) -> None:
    """Do all of the work now."""
    finish(steps)


def _encoded(record: Record) -> bytes:
    """Return the bytes of a record. What a client's request made too long for a record refuses that request."""
    try:
        return encode_record(record.message, record.version)
    except InvalidArgumentError as error:
        raise RefusedError(ErrorCode.INVALID_REQUEST, str(error)) from error


def check_size(decision: Decision[Message]) -> None:
    """Refuse with POLICY_VIOLATION a request that creates more atomic records than one batch should have."""
    if decision.atomic:
        assert not isinstance(decision.records, Iterator), "a stream of records is not atomic"
        count = len(decision.records)
        if count > RECORDS_PER_DECISION_MAX:
            raise RefusedError(ErrorCode.POLICY_VIOLATION,
                               f"the request makes {count} records, {RECORDS_PER_DECISION_MAX} are allowed")


class Controller:
    """Active controller. `replayer` has replayed the whole log; the controller continues with it. `new_id` draws random
    ids.

    `image` is the committed state; `decided` includes uncommitted decisions. `active` is True while this node leads the
    log. Before that, and after it resigned, requests are answered with NOT_CONTROLLER.
    """

    def __init__(
        self, settings: ControllerSettings, rules: ConfigRules, port: CommitPort, replayer: Replayer,
        new_id: Callable[[], UUID],
    ):
        self.settings = settings
        self.rules = rules
        self.port = port
        self.sessions = BrokerSessions(settings.broker_session_timeout_ms, settings.disconnect_grace_ms)
        self.on_probe: Callable[[BrokerRegistration], None] = lambda _broker: None
        """Request to connect to that broker and to report the result to `broker_probed`; called from `tick`."""
        self.on_notice: Callable[[str], None] = lambda _text: None
        """Receives a sentence that an operator should read in the node's log."""
        self.on_fencing: Callable[[Fencing, int], None] = lambda _fencing, _now_ms: None
        """Receives each broker that is fenced without having requested it, with the time of the record that fences
        it."""
        self.on_unclean: Callable[[], None] = lambda: None
        """Called for each unclean election."""
        self.run_steps: Callable[[int, Steps], None] = at_once
        """Does the rest of the work on a request of that API key, in later iterations of the loop."""
        self.on_deadline: Callable[[], None] = lambda: None
        """Called when work in steps is done: `deadline_ms` may have moved."""
        self.on_failure: Callable[[BaseException], object] = lambda _error: None
        """Receives an error that ended work half-way. This controller decides nothing more: the node must stop, because
        a caller may keep the error from ending more than its own request."""
        self._working = False
        """True while a decision is made or appended in steps."""
        self._queued: deque[Callable[[], None]] = deque()
        self._committed = 0
        self._rounds = Rounds(settings)
        self._kept = Kept()
        self._mutations = MutationQuotas(settings.mutation_samples, settings.mutation_sample_ms)
        self.active = False
        self.deadline_ms = NEVER_MS
        self._new_id = new_id
        self._replayer = replayer
        self._replayer.take()
        self.image = replayer.image
        self._pending: deque[_Pending] = deque()
        self._listeners: list[ImageListener] = []
        self._append_ms = 0

    @property
    def decided(self) -> MetadataImage:
        """State after all decisions so far. It includes uncommitted ones, so it must not be shown outside."""
        return self._replayer.image

    def subscribe(self, listener: ImageListener) -> None:
        """Call `listener(delta, image)` for every committed change, in order; `delta.image` is the image before. The
        state at the time of this call is `image`; it is not reported."""
        self._listeners.append(listener)

    @property
    def is_working(self) -> bool:
        """Return whether a decision is under way: the committed image may be older than what is committed."""
        return self._working

    # --- requests ---------------------------------------------------------------------------------------------------

    def submit(self, request: Message, version: int, now_ms: int, answer: Answer,
               client: Client | None = None, *, forwarded: bool = True) -> None:
        """Decide a request of that API version; `answer` gets the response once its content is committed. `client`
        is the one whose quota applies; None: a node's own request, without quota. `forwarded`: see `Context`.

        `InvalidArgumentError` for a request that the controller does not decide (see `HANDLERS`).
        """
        if isinstance(request, DescribeQuorumRequest):
            self._describe_quorum(request, version, now_ms, answer)
            return
        handler = HANDLERS.get(request.API_KEY)
        if handler is None:
            raise InvalidArgumentError(f"request: the controller does not decide a {type(request).__name__}")
        if not self.active:
            answer(self._refusal(handler, request, ErrorCode.NOT_CONTROLLER, "this node is not the active controller",
                                 now_ms))
            return
        if self._working:
            self._queued.append(
                partial(self.submit, request, version, now_ms, answer, client, forwarded=forwarded))
            return
        refuse = partial(self._refusal, handler, request, ErrorCode.NOT_CONTROLLER, LEADER_CHANGED, now_ms)
        self._start(request.API_KEY, self._decide(
            handler, request, version, now_ms, answer, client, forwarded=forwarded), lambda: answer(refuse()))

    def _start(self, key: int, steps: Steps, lose: Callable[[], None] = lambda: None) -> None:
        """Do the work at once if it is short, else in steps; `lose` answers when this node stops leading meanwhile."""
        self._working = True
        try:
            next(steps)
        except StopIteration:
            self._working = False
            while self._queued and not self._working:      # requests that its answer caused
                self._queued.popleft()()
            return
        except Exception as error:
            self.on_failure(error)
            raise
        self.run_steps(key, self._continue(steps, lose))

    def _continue(self, steps: Steps, lose: Callable[[], None]) -> Steps:
        while self.active:                 # the work may have waited for other work until now
            if next(steps, self) is self:
                break
            yield
        else:
            steps.close()
            lose()
        self._working = False
        while self._queued and not self._working:
            self._queued.popleft()()
            yield
        if not self._working:
            self._schedule()
            self.on_deadline()

    def _decide(self, handler: Handler, request: Message, version: int, now_ms: int, answer: Answer,
                client: Client | None, *, forwarded: bool) -> Steps:
        charge = self._mutations.charge(self.decided.quotas, request, version, client, now_ms)
        first = self.port.end_offset
        try:
            decision = yield from self._result(
                handler, self._context(version, now_ms, charge, client, forwarded=forwarded), request)
            check_size(decision)
            if decision.kraft_version is not None:
                last = self.port.upgrade_kraft_version(decision.kraft_version)
                self._pending.append(_Pending(last + 1, self._replayer.take(), []))
            charge.charge_for(decision.response)
            yield from self._append_steps(decision, now_ms)
        except RefusedError as refusal:
            answer(self._refusal(handler, request, refusal.error, refusal.message, now_ms))
            return
        if self.port.end_offset > first:
            decision.response.caused = ((first, self.port.end_offset - 1),)
        self._answer_when_committed(_Waiting(handler, request, decision.response, answer))

    def _result(self, handler: Handler, context: Context, request: Message
                ) -> Generator[None, None, Decision[Message]]:
        """Decide the request. A fault of ours that it meets refuses this one request: nothing is appended yet, and no
        request may keep the controller from deciding others."""
        try:
            decision = handler.decide(context, request)
            if isinstance(decision, Generator):
                decision = yield from decision
        except (RefusedError, AssertionError):
            raise
        except Exception as error:
            self.on_notice(f"{type(request).__name__} is refused by a fault of our own: {error!r}")
            raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        return decision

    def _refusal(self, handler: Handler, request: Message, code: ErrorCode, message: str | None,
                 now_ms: int) -> Message:
        """Return the refusal of a request. For a heartbeat it names the active controller, as far as it is known
        here."""
        refusal = handler.refuse(request, code, message)
        if isinstance(refusal, BrokerHeartbeatResponse):
            refusal.active_controller_id = self.port.describe_quorum(now_ms).leader_id
        return refusal

    def _describe_quorum(self, request: DescribeQuorumRequest, version: int, now_ms: int, answer: Answer) -> None:
        if self.active:
            answer(quorum_view.describe_quorum(self.port.describe_quorum(now_ms), request, version))
        else:
            state = self.port.describe_quorum(now_ms)
            answer(quorum_view.describe_quorum_refused(
                request, ErrorCode.NOT_LEADER_OR_FOLLOWER, None, state.leader_id, state.leader_epoch))

    def _context(self, version: int, now_ms: int, charge: MutationCharge = UNLIMITED, client: Client | None = None, *,
                 forwarded: bool = True) -> Context:
        return Context(
            image=self._replayer.image, settings=self.settings, rules=self.rules, sessions=self.sessions,
            now_ms=now_ms, next_offset=self.port.end_offset, end_offset=lambda: self.port.end_offset,
            api_version=version, new_id=self._new_id, quorum=partial(self.port.describe_quorum, now_ms),
            charge=charge.take, forwarded=forwarded, principal=ANONYMOUS if client is None else client.principal,
            kept=self._kept)

    def _answer_when_committed(self, waiting: _Waiting) -> None:
        """Answer now, or when the last decision is committed. Even one without records may have to wait: it may rely on
        earlier decisions."""
        if self._pending:
            self._pending[-1].waiting.append(waiting)
        else:
            waiting.answer(waiting.response)

    def _append(self, records: Sequence[Record], now_ms: int) -> None:
        """Append few records as one batch, and replay them, so that the next decision sees them."""
        assert not self._working, "records between those of a decision in steps"
        finish(self._append_steps(Decision(None, records), now_ms))

    def _append_steps(self, decision: Decision[Any], now_ms: int) -> Steps:
        """Append the records and replay them, so that the next decision sees them. After the last record of a stream
        nothing comes between its decision and its append. INVALID_REQUEST for a record that cannot be written."""
        if not decision.records:
            return
        source = decision.records
        part: list[Record] = []
        payloads: list[bytes] = []
        for record in source if isinstance(source, Iterator) else parts(source, self.settings.step):
            if record is None:
                yield
                continue
            self._inspect(record, now_ms)
            part.append(record)
            payloads.append(_encoded(record))
            if len(part) >= RECORDS_PER_BATCH_MAX and not decision.atomic:
                yield from self._append_part(part, payloads, now_ms)
                part, payloads = [], []
        if part:
            yield from self._append_part(part, payloads, now_ms)
        decision.appended(self.port.end_offset - 1)
        self._schedule()

    def _append_part(self, part: Sequence[Record], payloads: Sequence[bytes], now_ms: int) -> Steps:
        last = self.port.append(payloads, now_ms)
        self._append_ms = now_ms
        first = last + 1 - len(part)
        epoch = self.port.leader_epoch
        for number, record in enumerate(part):
            if number % self.settings.step == self.settings.step - 1:
                yield
            self._replayer.replay(record.message, first + number, epoch, now_ms)
        self._pending.append(_Pending(last + 1, self._replayer.take(), []))
        self._complete_committed()         # its commit may have come before its last step

    def _inspect(self, record: Record, now_ms: int) -> None:
        """Note what a decided record means for later elections. Report prominently a leader that may have lost records.
        A last leader that is the only one known is not reported: it has what its disk kept, which is not a decision of
        this controller."""
        self._rounds.look(record, now_ms)
        change = record.message
        if isinstance(change, PartitionChangeRecord) and change.leader_recovery_state == RECOVERING:
            topic = self.decided.topics[change.topic_id]
            if change.leader not in topic.partitions[change.partition_id].last_known_elr:
                self.on_notice(f"UNCLEAN ELECTION: broker {change.leader} leads {topic.name}-{change.partition_id} "
                               f"without having been in sync: acknowledged records may be lost")
                self.on_unclean()

    # --- the log ----------------------------------------------------------------------------------------------------

    def became_leader(self, leader_epoch: int, now_ms: int) -> None:
        """Make this node the active controller: everything before its epoch is committed and replayed."""
        assert leader_epoch == self.port.leader_epoch
        self.active = True
        self._append_ms = now_ms
        self._replayer.take()
        self.image = self._replayer.image
        for broker in self.image.brokers.values():
            # A broker of this very node ended with its process: it has no session left that could block it.
            if not broker.fenced and broker.broker_id != self.settings.node_id:
                self.sessions.contact(broker.broker_id, now_ms)
                self.sessions.doubt(broker.broker_id, Doubt.NO_CONTACT, now_ms)
        self._rounds.begin(now_ms)
        records = activation_records(
            self.settings.bootstrap, self.settings.min_insync_replicas,
            empty=not self.image.features, in_transaction=self._replayer.in_transaction)
        if records:
            self._append(records, now_ms)
        self._schedule()

    def committed(self, end_offset: int, _now_ms: int) -> None:
        """Publish everything below `end_offset`, which is committed, and send the answers that waited for it."""
        self._committed = end_offset
        self._complete_committed()

    def _complete_committed(self) -> None:
        while self._pending and self._pending[0].end_offset <= self._committed:
            pending = self._pending.popleft()
            for delta, image in pending.visible:
                self.image = image
                for listener in self._listeners:
                    listener(delta, image)
            for waiting in pending.waiting:
                waiting.answer(waiting.response)

    def resigned(self, now_ms: int) -> None:
        """Stop leading. Waiting requests get NOT_CONTROLLER: their decisions may yet be committed, or lost.

        The controller cannot continue after this: the next one is created with a replayer of the committed log.
        """
        self.active = False
        self.deadline_ms = NEVER_MS
        lost, self._pending = self._pending, deque()
        for pending in lost:
            for waiting in pending.waiting:
                waiting.answer(self._refusal(waiting.handler, waiting.request, ErrorCode.NOT_CONTROLLER,
                                             LEADER_CHANGED, now_ms))

    # --- brokers that may have ended --------------------------------------------------------------------------------

    def broker_disconnected(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """Note that the connection closed on which that incarnation sent its last heartbeat. It may have ended, or be
        about to connect again."""
        broker = self.decided.brokers.get(broker_id)
        if self.active and broker is not None and broker.epoch == broker_epoch:
            self.sessions.doubt(broker_id, Doubt.CLOSED, now_ms)
            self._schedule()

    def broker_probed(self, broker_id: int, broker_epoch: int, found: Found, now_ms: int) -> None:
        """Process the result of a connection attempt to that incarnation."""
        if self._working:
            self._queued.append(partial(self.broker_probed, broker_id, broker_epoch, found, now_ms))
        elif self.active:
            self._start(OWN_WORK, self._fence(brokers.fence_refused(
                self._context(0, now_ms), broker_id, broker_epoch, found), now_ms))
            self._schedule()

    def _fence(self, decision: Decision[None], now_ms: int) -> Steps:
        """Carry out a fencing that no request caused, if any, and report the reason."""
        if decision.fencing is not None:
            self.on_notice(f"broker {decision.fencing.broker_id} is fenced: {decision.fencing.because}")
            self.on_fencing(decision.fencing, now_ms)
            yield from self._append_steps(decision, now_ms)

    # --- time -------------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Do what is due: fence a broker that was unresponsive for too long, have brokers in doubt probed, hold
        elections, and show that an idle leader commits."""
        if not self.active:
            return
        if self._working:
            self.deadline_ms = NEVER_MS        # until the work is done
            return
        if now_ms - self.deadline_ms > self.settings.broker_session_timeout_ms // 2:
            # This process itself was paused. The heartbeats of that time may be unread in its sockets.
            self.sessions.renew_all(now_ms)
        for broker_id in self.sessions.take_probes(now_ms):
            broker = self.decided.brokers.get(broker_id)
            if broker is not None and not broker.fenced:
                self.on_probe(broker)
        self._start(OWN_WORK, self._do_due(now_ms))
        if self.is_working:
            self.deadline_ms = NEVER_MS
        else:
            self._schedule()

    def _do_due(self, now_ms: int) -> Steps:
        """Fence, elect and append what is due at this time."""
        yield from self._fence(brokers.fence_stale(self._context(0, now_ms)), now_ms)
        for each in self._rounds.all:
            if now_ms >= each.due_ms:
                decision = yield from each.hold(self._context(0, now_ms))
                yield from self._append_steps(decision, now_ms)
        idle = self.settings.idle_interval_ms
        if idle and now_ms - self._append_ms >= idle:
            yield from self._append_steps(Decision(None, [Record(NoOpRecord())]), now_ms)

    def _schedule(self) -> None:
        """Set the time of the next `tick`."""
        due = [self.sessions.due_ms(broker_id) for broker_id in self.sessions.by_id
               if broker_id in self.decided.brokers and not self.decided.brokers[broker_id].fenced]
        due.append(self._rounds.due_ms)
        if self.settings.idle_interval_ms:
            due.append(self._append_ms + self.settings.idle_interval_ms)
        self.deadline_ms = min(due) if self.active else NEVER_MS
