"""Brokers: registration, heartbeats, fencing, controlled shutdown, removal; and the registration of controllers.

    registered --> fenced <--> unfenced --> in controlled shutdown --> fenced, may stop
                     ^--- session ran out, or its process has ended ---'

A new incarnation of a broker is fenced until it has replayed its own registration. First, leaderships and ISR
memberships of its old incarnation are removed. Unless that one stopped cleanly, it is treated as having lost records.
So the only replica of a partition comes back as leader two leader epochs later, however it stopped.
"""

from collections.abc import Generator
from dataclasses import replace
from itertools import chain
from typing import Final
from uuid import UUID

from kraft.controller.decision import Context, Decision, Fencing, RefusedError, Stream, text_of
from kraft.controller.leaderships import leads, leaves, lost, returns
from kraft.controller.sessions import Found
from kraft.metadata.image import RESERVED_IDS, BrokerRegistration, MetadataImage
from kraft.metadata.snapshot import Record
from kraft.metadata.versions import METADATA_VERSION, MINIMUM, MetadataVersion
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from kraft.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from kraft.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from kraft.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from kraft.protocol.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from kraft.protocol.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from kraft.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from kraft.protocol.messages.unregister_broker_response import UnregisterBrokerResponse

# Values of BrokerRegistrationChangeRecord; 0 leaves the state unchanged.
FENCE: Final = 1
UNFENCE: Final = -1
ENTER_SHUTDOWN: Final = 1


def check_broker_epoch(image: MetadataImage, broker_id: int, epoch: int) -> BrokerRegistration:
    """Return the registration in that epoch. STALE_BROKER_EPOCH when its epoch differs, or without a registration."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise RefusedError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered")
    if broker.epoch != epoch:
        raise RefusedError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} has epoch {broker.epoch}, not {epoch}")
    return broker


# --- registration ---------------------------------------------------------------------------------------------------


def register_broker(
    context: Context, request: BrokerRegistrationRequest
) -> Decision[BrokerRegistrationResponse]:
    """Register a broker process.

    - The same incarnation keeps its epoch.
    - Another incarnation gets as its epoch the base offset of the batch with its registration: the last batch of this
      decision.
    - While the session of the old incarnation lasts, fenced or not, another is refused (DUPLICATE_BROKER_REGISTRATION).
    """
    image = context.image
    broker_id = request.broker_id
    existing = image.brokers.get(broker_id)
    _check_registration(context, request, existing)
    record = RegisterBrokerRecord(
        broker_id=broker_id, incarnation_id=request.incarnation_id, rack=request.rack, broker_epoch=-1,
        end_points=[BrokerEndpoint(name=each.name, host=each.host, port=each.port,
                                   security_protocol=each.security_protocol) for each in request.listeners],
        features=_checked_features(image, request),
    )
    if image.metadata_version.directories:
        record.log_dirs = list(request.log_dirs)
    removals: Stream = iter(())
    missing = [] if existing is None else [each for each in existing.log_dirs if each not in record.log_dirs]
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        if missing:
            removals = leaves(context, broker_id, directories=missing)
        record.fenced = existing.fenced
        record.broker_epoch = existing.epoch
        if image.metadata_version.in_controlled_shutdown:
            record.in_controlled_shutdown = existing.in_controlled_shutdown
        context.sessions.contact(broker_id, context.now_ms)
    else:
        if existing is not None:
            # The broker sends the epoch in which it stopped cleanly: then it lost nothing.
            clean = request.previous_broker_epoch == existing.epoch
            if clean or not image.metadata_version.elr:
                removals = leaves(context, broker_id)
            else:
                removals = lost(context, broker_id, directories_changed=bool(missing))
        context.sessions.restart(broker_id, context.now_ms)
    response = BrokerRegistrationResponse(broker_epoch=record.broker_epoch)
    return Decision(response, _registered(context, record, response, removals), atomic=False)


def _registered(
    context: Context, record: RegisterBrokerRecord, response: BrokerRegistrationResponse, removals: Stream
) -> Stream:
    """Yield the removal of the old incarnation, then the registration.

    Removals may need several batches, and a part of them may be committed alone. But a broker that has replayed up to
    its epoch must have its registration. So the epoch is drawn when the last batch, which has the registration, is
    about to be appended.
    """
    yield from removals
    if record.broker_epoch < 0:
        record.broker_epoch = response.broker_epoch = context.end_offset()
    yield Record(record, context.image.metadata_version.register_broker_record)


def _check_registration(
    context: Context, request: BrokerRegistrationRequest, existing: BrokerRegistration | None
) -> None:
    if request.cluster_id != context.settings.cluster_id:
        raise RefusedError(ErrorCode.INCONSISTENT_CLUSTER_ID,
                           f"this is cluster {context.settings.cluster_id}, not {request.cluster_id}")
    if (existing is not None and existing.incarnation_id != request.incarnation_id
            and context.sessions.holds(request.broker_id, context.now_ms)):
        raise RefusedError(ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                           f"broker {request.broker_id} is alive in another process")
    if request.is_migrating_zk_broker:
        raise RefusedError(ErrorCode.BROKER_ID_NOT_REGISTERED, "brokers of ZooKeeper clusters cannot register")
    if context.image.metadata_version.directories:
        _check_log_dirs(context.image, request)


def _check_log_dirs(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    wrong = None
    if not request.log_dirs:
        wrong = "no log directories"
    elif any(directory.int < RESERVED_IDS for directory in request.log_dirs):
        wrong = "a reserved directory id"
    elif len(own := dict.fromkeys(request.log_dirs)) != len(request.log_dirs):
        wrong = "a directory id twice"
    else:
        for other in image.brokers.values():
            shared = [directory for directory in other.log_dirs if directory in own]
            if other.broker_id != request.broker_id and shared:
                wrong = f"directory {shared[0]}, which belongs to broker {other.broker_id}"
    if wrong:
        raise RefusedError(ErrorCode.INVALID_REGISTRATION, f"broker {request.broker_id} registers with {wrong}")


def _checked_features(image: MetadataImage, request: BrokerRegistrationRequest) -> list[BrokerFeature]:
    """Return the broker's features; UNSUPPORTED_VERSION when one of them does not reach the cluster's level."""
    levels = {each.name: (each.min_supported_version, each.max_supported_version) for each in request.features}
    levels.setdefault(METADATA_VERSION, (MINIMUM.level, MINIMUM.level))
    finalized = {METADATA_VERSION: image.metadata_version.level, **image.features}
    for name, level in finalized.items():
        lowest, highest = levels.get(name, (0, 0))
        if not lowest <= level <= highest:
            raise RefusedError(ErrorCode.UNSUPPORTED_VERSION,
                               f"the cluster is at {name} {level}, broker {request.broker_id} supports {lowest} to "
                               f"{highest}")
    return [BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in levels.items()]


def broker_registration_refused(
    _request: BrokerRegistrationRequest, code: ErrorCode, _message: str | None
) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=code, broker_epoch=-1)


# --- fencing --------------------------------------------------------------------------------------------------------


def fence(context: Context, broker: BrokerRegistration) -> Stream:
    """Remove the broker's leaderships and ISR memberships, then record that it is fenced."""
    yield from leaves(context, broker.broker_id)
    yield Record(BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=FENCE))


def unfence(context: Context, broker: BrokerRegistration, log_dirs: tuple[UUID, ...]) -> Stream:
    """Record that the broker takes part, then give leaderless partitions to it. `log_dirs`: the directories that it has
    at the end of this decision."""
    yield Record(BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=UNFENCE))
    yield from returns(context, replace(broker, fenced=False, log_dirs=log_dirs))


def begin_shutdown(context: Context, broker: BrokerRegistration) -> Stream:
    """Record that the broker is in controlled shutdown, then move its leaderships."""
    if context.image.metadata_version.in_controlled_shutdown and not broker.in_controlled_shutdown:
        yield Record(BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=ENTER_SHUTDOWN), 1)
    yield from leaves(context, broker.broker_id)


def fence_stale(context: Context) -> Decision[None]:
    """Fence the broker that was unresponsive for the longest time, if that was longer than its session."""
    stale = [(session.last_contact_ms, broker_id) for broker_id, session in context.sessions.by_id.items()
             if not context.sessions.valid(broker_id, context.now_ms)]
    for _, broker_id in sorted(stale):
        broker = context.image.brokers.get(broker_id)
        if broker is not None and not broker.fenced:
            context.sessions.forget(broker_id)
            return Decision(None, fence(context, broker), atomic=False,
                            fencing=Fencing(broker_id, context.sessions.timeout_ms))
    return Decision(None)


def fence_refused(context: Context, broker_id: int, broker_epoch: int, found: Found) -> Decision[None]:
    """Fence a probed broker if the probe shows that its process has ended and no heartbeat came meanwhile."""
    broker = context.image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch or broker.fenced:
        return Decision(None)
    doubt = context.sessions.probed(broker_id, found, context.now_ms)
    if doubt is None:
        return Decision(None)
    context.sessions.forget(broker_id)
    return Decision(None, fence(context, broker), atomic=False,
                    fencing=Fencing(broker_id, context.sessions.timeout_ms, doubt, found))


# --- heartbeats -----------------------------------------------------------------------------------------------------


def broker_heartbeat(
    context: Context, request: BrokerHeartbeatRequest
) -> Generator[None, None, Decision[BrokerHeartbeatResponse]]:
    """Process a heartbeat: the broker is alive, and reports its replay progress and its wanted state. The answer has
    its actual state. Works in steps."""
    image = context.image
    broker = check_broker_epoch(image, request.broker_id, request.broker_epoch)
    caught_up = request.current_metadata_offset >= broker.epoch
    session = context.sessions.contact(broker.broker_id, context.now_ms, request.current_metadata_offset)
    online = _online_dirs(context.image, broker, request)
    records: list[Stream] = []
    begins_shutdown = False
    fenced, may_stop = broker.fenced, False
    if broker.fenced:
        session.shutdown_offset = -1
        # An incarnation in controlled shutdown: the rest of this heartbeat was overtaken by its later ones.
        may_stop = request.want_shut_down or broker.in_controlled_shutdown
        if not may_stop and not request.want_fence and caught_up and (online or not broker.log_dirs):
            fenced = False
            records.append(unfence(context, broker, online))
    elif broker.in_controlled_shutdown or session.shutdown_offset >= 0:
        fenced = may_stop = yield from _may_stop(context, broker.broker_id)
    elif request.want_fence or (request.want_shut_down and not (yield from leads(context, broker.broker_id))):
        fenced, may_stop = True, request.want_shut_down
    elif request.want_shut_down:
        records.append(begin_shutdown(context, broker))
        begins_shutdown = True
    if fenced and not broker.fenced:
        records.append(fence(context, broker))
        session.shutdown_offset = -1
    if may_stop:
        context.sessions.forget(broker.broker_id)      # the next process need not wait until the session ends
    records += _directory_changes(context, broker, request, online, leaves_all=begins_shutdown or fenced)

    def appended(last_offset: int) -> None:
        if begins_shutdown:
            session.shutdown_offset = last_offset

    lease_start_ms = context.now_ms if request.lease_start_time_ms < 0 else request.lease_start_time_ms
    return Decision(BrokerHeartbeatResponse(
        is_caught_up=caught_up, is_fenced=fenced, should_shut_down=may_stop,
        active_controller_id=context.settings.node_id,
        lease_end_time_ms=lease_start_ms + context.settings.broker_session_timeout_ms,
    ), chain.from_iterable(records) if records else (), atomic=False, appended=appended)


def _may_stop(context: Context, broker_id: int) -> Generator[None, None, bool]:
    """Return whether all other active brokers know that the broker leads nothing any more. Works in steps."""
    if (yield from leads(context, broker_id)):
        return False
    others = [session.metadata_offset for other, session in context.sessions.by_id.items()
              if other != broker_id and context.is_active(other)]
    return not others or context.sessions.by_id[broker_id].shutdown_offset <= min(others)


def _online_dirs(
    image: MetadataImage, broker: BrokerRegistration, request: BrokerHeartbeatRequest
) -> tuple[UUID, ...]:
    """Return the directories of the broker without those that the heartbeat reports as failed."""
    if not image.metadata_version.directories:
        return broker.log_dirs
    offline = dict.fromkeys(request.offline_log_dirs)
    return tuple(directory for directory in broker.log_dirs if directory not in offline)


def _directory_changes(
    context: Context, broker: BrokerRegistration, request: BrokerHeartbeatRequest, online: tuple[UUID, ...], *,
    leaves_all: bool,
) -> list[Stream]:
    """Return records for log directories that failed, so that `online` remain, or that may get no new replicas.
    `leaves_all`: other records of the decision remove all replicas of the broker from their in-sync sets."""
    version: MetadataVersion = context.image.metadata_version
    records: list[Stream] = []
    if online != broker.log_dirs:
        if not leaves_all:
            failed = [directory for directory in broker.log_dirs if directory not in online]
            records.append(leaves(context, broker.broker_id, directories=failed))
        records.append(iter((Record(BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.epoch, log_dirs=list(online)), 2),)))
    cordoned = request.cordoned_log_dirs
    if version.cordoned_log_dirs and cordoned is not None and tuple(cordoned) != broker.cordoned_log_dirs:
        records.append(iter((Record(BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned)), 3),)))
    return records


def broker_heartbeat_refused(
    _request: BrokerHeartbeatRequest, code: ErrorCode, _message: str | None
) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(error_code=code)


# --- removal, and controllers ---------------------------------------------------------------------------------------


def unregister_broker(context: Context, request: UnregisterBrokerRequest) -> Decision[UnregisterBrokerResponse]:
    """Remove a broker that will not come back. It stays among the replicas of its partitions."""
    broker = context.image.brokers.get(request.broker_id)
    if broker is None:
        raise RefusedError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered")
    context.sessions.forget(request.broker_id)
    removed = Record(UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch))
    return Decision(UnregisterBrokerResponse(error_message=None), chain(lost(context, request.broker_id), (removed,)),
                    atomic=False)


def unregister_broker_refused(
    _request: UnregisterBrokerRequest, code: ErrorCode, message: str | None
) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=code, error_message=text_of(code, message))


def register_controller(
    context: Context, request: ControllerRegistrationRequest
) -> Decision[ControllerRegistrationResponse]:
    """Register a controller process with the features that it supports (KIP-919)."""
    if not context.image.metadata_version.controller_registration:
        raise RefusedError(ErrorCode.UNSUPPORTED_VERSION,
                           f"metadata.version {context.image.metadata_version.name} has no controller registrations")
    record = RegisterControllerRecord(
        controller_id=request.controller_id, incarnation_id=request.incarnation_id, zk_migration_ready=False,
        end_points=[ControllerEndpoint(name=each.name, host=each.host, port=each.port,
                                       security_protocol=each.security_protocol) for each in request.listeners],
        features=[ControllerFeature(name=each.name, min_supported_version=each.min_supported_version,
                                    max_supported_version=each.max_supported_version) for each in request.features],
    )
    return Decision(ControllerRegistrationResponse(error_message=""), [Record(record)])


def controller_registration_refused(
    _request: ControllerRegistrationRequest, code: ErrorCode, message: str | None
) -> ControllerRegistrationResponse:
    return ControllerRegistrationResponse(error_code=code, error_message=text_of(code, message))
