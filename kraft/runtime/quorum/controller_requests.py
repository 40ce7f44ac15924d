"""The controller listener of a quorum: from a request's bytes to the core or the controller, and back.

A broker forwards its clients' requests in an Envelope (KIP-590): the request with its header, as the client sent it.
"""

import logging
from collections.abc import Callable, Generator, Iterable
from functools import lru_cache, partial
from ipaddress import ip_address
from itertools import compress
from operator import not_
from typing import Final, NamedTuple
from uuid import UUID

from kraft.broker.api import Steps, each_step
from kraft.broker.cluster_description import CONTROLLERS, describe_nodes
from kraft.broker.logger_changes import alter_loggers
from kraft.broker.request_parts import serve_in_parts
from kraft.controller.controller import HANDLERS
from kraft.metadata.image import BROKER_LOGGER_RESOURCE
from kraft.protocol.api import Api
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.headers import decode_request, encode_response_header
from kraft.protocol.message import Message, caused_by
from kraft.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from kraft.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from kraft.protocol.messages.controller_heartbeat_request import ControllerHeartbeatRequest
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterBroker
from kraft.protocol.messages.describe_recorder_request import DescribeRecorderRequest
from kraft.protocol.messages.describe_recorder_response import DescribeRecorderResponse
from kraft.protocol.messages.envelope_request import EnvelopeRequest
from kraft.protocol.messages.envelope_response import EnvelopeResponse
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.raft.messages import Response
from kraft.raft.wire import FETCH_CODEC, Codec, WrongPartitionError
from kraft.raft.wire_changes import CODEC_BY_KEY, codec_of, split_reassignment
from kraft.raft.wire_templates import FetchTemplates
from kraft.runtime.audit.node_audit import NodeAudit, PendingChange
from kraft.runtime.base.logger_levels import LoggerLevels
from kraft.runtime.net.api_versions import served_versions
from kraft.runtime.net.broker_connections import BrokerConnections
from kraft.runtime.net.caused_offsets import encode_offsets
from kraft.runtime.net.controller_channel import refusal
from kraft.runtime.net.requests import SMALL_BYTES, RequestWork, answer_steps, decoded, serve_api
from kraft.runtime.net.server import Server
from kraft.runtime.quorum.quorum_replica import QuorumReplica
from kraft.security.access import Access
from kraft.security.acls import Operation, ResourceType
from kraft.security.forwarding import decoded_host, decoded_principal
from kraft.security.principal import ANONYMOUS, Client
from kraft.security.tokens import may_request_tokens
from kraft_native.base.errors import KraftError, ProtocolError
from kraft_native.net.channel import RequestChannel
from kraft_native.request.reply import Reply

log = logging.getLogger(__name__)

SOURCES_KEPT: Final = 1024
DECIDED: Final = tuple(sorted(
    key for key in (ApiKey.DESCRIBE_QUORUM, *HANDLERS) if API_BY_KEY[key].controller_versions is not None))
"""Requests that the controller decides."""

SERVED: Final = (ApiKey.DESCRIBE_CLUSTER, ApiKey.ENVELOPE, ApiKey.DESCRIBE_RECORDER, ApiKey.CONTROLLER_HEARTBEAT,
                 *DECIDED, *CODEC_BY_KEY)

OF_BROKERS: Final = (BrokerHeartbeatRequest.API_KEY, BrokerRegistrationRequest.API_KEY, AlterPartitionRequest.API_KEY)
"""Requests on which fail-over depends: their decisions do not share the time of clients' requests."""

OF_TOKENS: Final = (ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN)
"""Requests that need a client which has proven its identity to this node, or to the broker that forwards them."""

Respond = Callable[[Message], None]


def serve_apis(channel: RequestChannel, keys: Iterable[int] = SERVED) -> None:
    """Serve these APIs on a listener, in the versions of controllers."""
    for key in keys:
        api = API_BY_KEY[key]
        serve_api(channel, api, served_versions(api, api.controller_versions or api.versions))


class _Origin(NamedTuple):
    """Client whose permissions apply to a request, and the client whose quotas do: none for a node's own."""

    client: Client
    charged: Client | None


class ControllerRouter:
    """Router of one controller listener. A `RequestChannel` calls its `on_request`. `served` is called after each
    request but a Fetch, because deadlines of the controller may have moved."""

    def __init__(self, quorum: QuorumReplica, server: Server, served: Callable[[], None], listener: str = "",
                 audit: NodeAudit | None = None) -> None:
        self.quorum = quorum
        self.listener = listener
        self.audit = audit
        self.server = server
        self._brokers = BrokerConnections(quorum.metadata, server)
        self.served = served
        quorum.metadata.run_steps = self._run_decision
        self._templates = FetchTemplates()

    def on_request(self, reply: Reply, api_key: int, version: int, body: bytes) -> None:
        """Serve a request. A malformed body closes the connection. A malformed Fetch raises `ProtocolError`."""
        if not self.quorum.can_answer:
            reply.refuse("shutdown")   # it would stay unanswered; the client learns it at once
            return
        sink = reply.sink
        source = _source(getattr(sink, "peer_host", ""), getattr(sink, "peer_port", 0))
        if api_key == FETCH_CODEC.key:
            if self._may_act(reply):
                self._fetch(reply, source, version, body)
            else:
                refused = FETCH_CODEC.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
                reply.answer(refused.encode(version), API_BY_KEY[api_key].response_header_version(version))
            return
        work = RequestWork(reply)
        self._run(work, self._steps(work, API_BY_KEY[api_key], source, body))

    def _steps(self, work: RequestWork, api: Api, source: int, body: bytes) -> Steps:
        reply, version = work.reply, work.reply.api_version
        request = yield from decoded(api, version, body)
        if len(body) > SMALL_BYTES:
            work.request = request

        def send(response: Message) -> None:
            reply.throttle_ms = getattr(response, "throttle_time_ms", 0)
            self._run(work, self._send(reply, response))

        respond: Respond = send
        if self.audit is not None and (
                audited := self.audit.begin(reply, request, self.listener, self._find_topic)) is not None:
            respond = self._audited(reply, audited, respond)
        run = partial(self._run, work)
        client = _client_of(reply)
        if isinstance(request, BrokerHeartbeatRequest) and reply.sink is not None and self._may_act(reply):
            self._brokers.note_heartbeat(reply.sink, request)
        if not isinstance(request, EnvelopeRequest):
            yield from self._serve(version, request, source, respond, _Origin(client, client), run, forwarded=False)
        elif self._may_act(reply):
            yield from self._open(request, source, respond, client, run)
        else:
            respond(EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        self.served()

    def _find_topic(self, topic_id: UUID) -> str | None:
        return self.quorum.metadata.image.topic_name(topic_id)

    def _audited(self, reply: Reply, audited: PendingChange, respond: Respond) -> Respond:
        """Return a function that audits the response too, also when its client has disconnected."""
        def answer(response: Message) -> None:
            self.server.slices.work(reply.api_key, audited.answered_steps(response))
            respond(response)

        return answer

    def _may_act(self, reply: Reply) -> bool:
        """Return whether the other side of a connection may act as a node of the cluster."""
        if self.quorum.authorizer is None:
            return True
        client = _client_of(reply)
        return Access(self.quorum.authorizer, client.principal, client.host).may(
            Operation.CLUSTER_ACTION, ResourceType.CLUSTER)

    def _run_decision(self, key: int, steps: Steps) -> None:
        if key in OF_BROKERS:
            self.quorum.work.add(steps)
        else:
            self.server.slices.work(key, steps)

    def _send(self, reply: Reply, response: Message) -> Steps:
        def failed(error: KraftError) -> None:
            log.error("%s version %d: its answer cannot be written", API_BY_KEY[reply.api_key].name, reply.api_version,
                      exc_info=error)
            reply.refuse("failure")

        return answer_steps(reply, response, self.server.limits.answer_bytes_max, failed)

    def _run(self, work: RequestWork, steps: Steps) -> None:
        self.server.slices.start(work.reply, work.part(self.server.slices, _guarded(work.reply, steps)))

    def _fetch(self, reply: Reply, source: int, version: int, body: bytes) -> None:
        """Serve a Fetch, which replicas send all the time."""
        header_version = API_BY_KEY[FETCH_CODEC.key].response_header_version(version)
        try:
            raft_request = self._templates.request_of(source, body, version)
        except WrongPartitionError as error:
            log.debug("Fetch: %s", error)
            reply.answer(FETCH_CODEC.refuse(ErrorCode.INVALID_REQUEST).encode(version), header_version)
            return

        def answer(response: Response) -> None:
            try:
                parts = self._templates.response_parts(response, version)
            except KraftError:
                log.exception("Fetch version %d: its answer cannot be written", version)
                reply.refuse("failure")
            else:
                reply.answer_parts(parts, header_version)

        self.quorum.submit(source, raft_request, answer)

    def _serve(self, version: int, request: Message, source: int, respond: Respond, origin: _Origin,
               run: Callable[[Steps], None], *, forwarded: bool) -> Steps:
        """Serve a request as far as its client may."""
        if self.quorum.authorizer is None:
            yield from self._serve_allowed(version, request, source, respond, origin, run, forwarded=forwarded)
            return
        from kraft.broker.access.rules import Call
        from kraft.broker.access.serving import serve_checked
        from kraft.broker.access.table import ON_CONTROLLERS, ROWS
        access = Access(self.quorum.authorizer.now(), origin.client.principal, origin.client.host)
        if self.server.access_audit is not None and not forwarded:     # the broker has audited what it forwards
            respond = self.server.access_audit.watch(access, request, version, origin.client, self.listener, respond)
        row = ON_CONTROLLERS.get(request.API_KEY) or ROWS[request.API_KEY]

        def serve(part: Message, answer: Respond) -> Steps:
            return self._serve_allowed(version, part, source, answer, origin, run, forwarded=forwarded, access=access)

        steps = serve_checked(row, Call(access, request, version, respond, serve, run, refusal,
                                        self.quorum.metadata.image))
        if steps is not None:
            yield from steps

    def _serve_allowed(self, version: int, request: Message, source: int, respond: Respond, origin: _Origin,
                       run: Callable[[Steps], None], *, forwarded: bool, access: Access | None = None) -> Steps:
        def send(part: Message, answer: Respond) -> None:
            codec = codec_of(part)
            if codec is not None:
                submit_to_core(self.quorum, codec, part, version, source, answer)
            else:
                self.quorum.metadata.submit(part, version, self.quorum.clock(), answer, origin.charged,
                                            forwarded=forwarded)

        if isinstance(request, DescribeClusterRequest):
            respond(self._describe_cluster(request, version, access))
        elif isinstance(request, DescribeRecorderRequest):
            respond(self._describe_recorder(request))
        elif isinstance(request, ControllerHeartbeatRequest):
            respond(self.quorum.keeper.heartbeat(request))
        elif request.API_KEY in OF_TOKENS and not forwarded and not may_request_tokens(
                self.quorum.config.protocol(self.listener), origin.client.principal):
            respond(refusal(request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))
        else:
            if isinstance(request, IncrementalAlterConfigsRequest):
                are_loggers = yield from each_step(_is_logger, request.resources)
                if any(are_loggers):
                    own = list(compress(request.resources, are_loggers))
                    request = request.replace(resources=list(compress(request.resources, map(not_, are_loggers))))
                    respond = yield from self._alter_loggers(request, own, respond)
                    if not request.resources:
                        respond(IncrementalAlterConfigsResponse())
                        return
            yield from serve_in_parts(request, send, respond, run, refuse_too_many, self.quorum.metadata.image)

    def _alter_loggers(self, request: IncrementalAlterConfigsRequest, own: list[AlterConfigsResource], respond: Respond
                       ) -> Generator[None, None, Respond]:
        """Change levels of this process's loggers; return the function that completes the answer with their results."""
        results = yield from alter_loggers(LoggerLevels(), self.quorum.config.node_id, own,
                                           validate_only=request.validate_only)

        def complete(response: Message) -> None:
            assert isinstance(response, IncrementalAlterConfigsResponse)
            response.responses = [*results, *response.responses]
            respond(response)

        return complete

    def _open(self, envelope: EnvelopeRequest, source: int, respond: Respond, sender: Client,
              run: Callable[[Steps], None]) -> Steps:
        """Serve the inner request as if it had come from its client itself: from the `sender` where the envelope names
        no client. A request that cannot be read or forwarded is an error of the envelope."""
        of_client = envelope.request_principal
        try:
            principal = decoded_principal(of_client) if of_client else sender.principal
        except ProtocolError as error:
            log.debug("Envelope: %s", error)
            respond(EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE))
            return
        try:
            inner = decode_request(envelope.request_data)
            version = inner.header.request_api_version
            if not inner.api.forwardable or inner.api.key not in SERVED or version not in inner.api.versions:
                raise WrongPartitionError(f"{inner.api.name} version {version} cannot be forwarded")
            client = Client(inner.header.client_id or "", principal,
                            decoded_host(envelope.client_host_address) if of_client else sender.host)
            request = yield from decoded(inner.api, version, bytes(inner.body))
        except ProtocolError as error:
            log.debug("Envelope: %s", error)
            respond(EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST))
            return

        def wrap(response: Message) -> None:
            if not self.quorum.metadata.controller.active:
                # The leadership ended meanwhile: the forwarding broker sends it to the next controller, unseen by its
                # client.
                respond(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
                return
            run(seal(response))

        def seal(response: Message) -> Steps:
            header = encode_response_header(inner.api, version, inner.header.correlation_id)
            parts = yield from response.encode_steps(version)
            respond(EnvelopeResponse(response_data=b"".join((header, *parts)),
                                     unknown_tags=encode_offsets(caused_by(response))))

        if not self.quorum.metadata.controller.active:
            respond(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
        else:
            origin = _Origin(client, client if inner.header.client_id is not None else None)
            yield from self._serve(version, request, source, wrap, origin, run, forwarded=True)

    def _describe_cluster(self, request: DescribeClusterRequest, version: int, access: Access | None) -> Message:
        """Describe the voters."""
        replica = self.quorum.raft.replica

        def nodes() -> list[DescribeClusterBroker]:
            return [DescribeClusterBroker(broker_id=voter.key.node_id, host=endpoint.host, port=endpoint.port)
                    for voter in replica.voters.voters for endpoint in voter.endpoints[:1]]

        return describe_nodes(request, version, CONTROLLERS, self.quorum.cluster_id.value, replica.leader_id, nodes,
                              access)

    def _describe_recorder(self, request: DescribeRecorderRequest) -> Message:
        """Describe the events of this replica, followed by its current state."""
        entries = (*self.quorum.recorder.entries(request.max_entries), self.quorum.recorded_state())
        return DescribeRecorderResponse(
            node_id=self.quorum.config.node_id, entries=[entry.line for entry in entries])


def _client_of(reply: Reply) -> Client:
    return Client((reply.client_id or b"").decode("utf-8", "replace"), getattr(reply.sink, "principal", ANONYMOUS),
                  getattr(reply.sink, "peer_host", ""))


def _is_logger(resource: AlterConfigsResource) -> bool:
    return resource.resource_type == BROKER_LOGGER_RESOURCE


def _guarded(reply: Reply, steps: Steps) -> Steps:
    try:
        yield from steps
    except ProtocolError as error:
        log.debug("%s version %d is refused: %s", API_BY_KEY[reply.api_key].name, reply.api_version, error)
        reply.refuse("malformed")


def refuse_too_many(request: Message, why: str) -> Message:
    """Return POLICY_VIOLATION for every element of a request that has too many."""
    return HANDLERS[request.API_KEY].refuse(request, ErrorCode.POLICY_VIOLATION, why)


def submit_to_core(quorum: QuorumReplica, codec: Codec, request: Message, version: int, source: int,
                   respond: Respond) -> None:
    """Pass a request to the consensus core; `source` identifies the connection. A reassignment of the voters may name
    topics, too. Then the controller decides the topics, and the answer contains both."""
    others = split_reassignment(request) if isinstance(request, AlterPartitionReassignmentsRequest) else None
    if others is not None:
        respond = _both(respond)
        quorum.metadata.submit(others, version, quorum.clock(), respond, None)
    try:
        raft_request = codec.decode_request(request, version)
    except WrongPartitionError as error:
        log.debug("%s: %s", type(request).__name__, error)
        respond(codec.refuse(ErrorCode.INVALID_REQUEST))
    else:
        quorum.serve(codec, source, raft_request, version, respond)


def _both(respond: Respond) -> Respond:
    """Merge the two answers to a reassignment, in any order. The error of a whole answer is that of its topics."""
    answers: list[AlterPartitionReassignmentsResponse] = []

    def collect(answer: Message) -> None:
        assert isinstance(answer, AlterPartitionReassignmentsResponse)
        answers.append(answer)
        if len(answers) == 2:
            failed = next((each for each in answers if each.error_code), answers[0])
            answers[0].error_code, answers[0].error_message = failed.error_code, failed.error_message
            answers[0].responses = [topic for each in answers for topic in each.responses]
            respond(answers[0])

    return collect


@lru_cache(maxsize=SOURCES_KEPT)
def _source(host: str, port: int) -> int:
    """Number of a connection, unique while it lives."""
    return int(ip_address(host or "0.0.0.0")) << 16 | port  # noqa: S104 - a number, no address to bind
