"""One event of the audit, as an object for JSON.

Names and numbers are those of the Open Cybersecurity Schema Framework, with its profile `security_control`. Its
classes are Authentication (3002), Account Change (3001), API Activity (6003) and Event Log Activity (1008). Facts that
it has no field for are in `unmapped`:

- `decision`: allowed, denied, failed or requested.
- `node_id`, `listener`, `operation` (of an ACL), `dry_run`, `resources_cut`.
- `errors`: Kafka's error codes of the answer, each with its count.
- `metadata_offsets`: pairs of the first and the last record in the metadata log that the request caused.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft.security.audit.resources import Named, Requested, cut
from kraft.security.principal import Principal

SCHEMA_VERSION: Final = "1.3.0"
ALLOWED: Final = "allowed"
DENIED: Final = "denied"
FAILED: Final = "failed"
REQUESTED: Final = "requested"
"""Decision of an access to data that was sampled before it was served."""
ACCOUNT_CHANGE: Final = 3001
AUTHENTICATION: Final = 3002
API_ACTIVITY: Final = 6003
LOG_ACTIVITY: Final = 1008
CLASSES: Final = {ACCOUNT_CHANGE: "Account Change", AUTHENTICATION: "Authentication", API_ACTIVITY: "API Activity",
                  LOG_ACTIVITY: "Event Log Activity"}
CATEGORIES: Final = {1: "System Activity", 3: "Identity & Access Management", 6: "Application Activity"}
CREATE, READ, UPDATE, DELETE = 1, 2, 3, 4
ACTIVITIES: Final = {CREATE: "Create", READ: "Read", UPDATE: "Update", DELETE: "Delete"}
"""Those of API Activity."""
LOGON: Final = 1
PASSWORD_CHANGE: Final = 3
ACCOUNT_DELETE: Final = 6
LOG_DISCARDED: Final = 99
INFORMATIONAL, MEDIUM = 1, 3
USER_TYPE: Final = 1
OTHER_PROTOCOL: Final = 99
NETWORK_LOGON: Final = 3

_CREATING: Final = (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.CREATE_ACLS, ApiKey.CREATE_DELEGATION_TOKEN,
                    ApiKey.ADD_RAFT_VOTER)
_DELETING: Final = (ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.DELETE_ACLS, ApiKey.DELETE_GROUPS,
                    ApiKey.OFFSET_DELETE, ApiKey.DELETE_SHARE_GROUP_OFFSETS, ApiKey.UNREGISTER_BROKER,
                    ApiKey.REMOVE_RAFT_VOTER, ApiKey.EXPIRE_DELEGATION_TOKEN)
_UPDATING: Final = (ApiKey.PRODUCE, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ELECT_LEADERS,
                    ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.UPDATE_FEATURES,
                    ApiKey.ALTER_REPLICA_LOG_DIRS, ApiKey.RENEW_DELEGATION_TOKEN,
                    ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.ALTER_SHARE_GROUP_OFFSETS)
_ACTIVITY: Final[dict[int, int]] = {**dict.fromkeys(_CREATING, CREATE), **dict.fromkeys(_DELETING, DELETE),
                    **dict.fromkeys(_UPDATING, UPDATE)}
REFUSALS: Final = tuple(int(code) for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED"))
"""Error codes with which an authorizer denies."""

Event = dict[str, Any]
Offsets = tuple[tuple[int, int], ...]


class Origin(NamedTuple):
    """Client of a request or of a login. `port` is 0 where it is not known."""

    principal: Principal
    host: str
    port: int
    client_id: str
    listener: str


class Node(NamedTuple):
    """The node that writes the events."""

    node_id: int
    version: str
    started_ms: int


def _event(node: Node, number: int, now_ms: int, kind: int, activity: int, activity_name: str) -> Event:
    """Return the fields that all classes have. `number` counts the events of this node since its start."""
    category = kind // 1000
    return {
        "time": now_ms,
        "metadata": {"version": SCHEMA_VERSION, "uid": _uid(node, number),
                     "profiles": ["security_control"],
                     "product": {"name": "kraft", "vendor_name": "kraft", "version": node.version}},
        "category_uid": category, "category_name": CATEGORIES[category], "class_uid": kind, "class_name": CLASSES[kind],
        "activity_id": activity, "activity_name": activity_name, "type_uid": kind * 100 + activity,
    }


def _uid(node: Node, number: int) -> str:
    return f"{node.node_id}-{node.started_ms:x}-{number:x}"


def _user(principal: Principal) -> Event:
    return {"name": cut(principal.name), "type": cut(principal.kind), "type_id": USER_TYPE, "uid": cut(str(principal))}


def _status(event: Event, decision: str, unmapped: Event) -> None:
    """Add the result; `unmapped` gets the decision."""
    is_well = decision in (ALLOWED, REQUESTED)
    event["severity_id"] = INFORMATIONAL if is_well else MEDIUM
    event["severity"] = "Informational" if is_well else "Medium"
    if decision == REQUESTED:
        event["status_id"], event["status"] = 0, "Unknown"
    else:
        event["status_id"], event["status"] = (1, "Success") if decision == ALLOWED else (2, "Failure")
    event["action_id"], event["action"] = (2, "Denied") if decision == DENIED else (1, "Allowed")
    unmapped["decision"] = decision


def login(node: Node, number: int, now_ms: int, origin: Origin, mechanism: str, why: str | None) -> Event:
    """Return the event of a login by a mechanism of SASL, or by TLS. `why` is the reason of a failed one."""
    event = _event(node, number, now_ms, AUTHENTICATION, LOGON, "Logon")
    unmapped: Event = {"node_id": node.node_id, "listener": origin.listener}
    _status(event, ALLOWED if why is None else DENIED, unmapped)
    if why is not None:
        event["status_detail"] = cut(why)
    event |= {"user": _user(origin.principal), "actor": _actor(origin), "auth_protocol": mechanism,
              "auth_protocol_id": OTHER_PROTOCOL, "logon_type_id": NETWORK_LOGON, "is_remote": True,
              "service": {"name": "kafka"}, "src_endpoint": _endpoint(origin), "unmapped": unmapped}
    return event


def change(node: Node, number: int, now_ms: int, origin: Origin, request: Requested, errors: Mapping[int, int],
           offsets: Offsets) -> Event:
    """Return the event of an administrative request that was answered with these error codes, each with its count."""
    unmapped: Event = {"node_id": node.node_id, "listener": origin.listener}
    event = _class_of(node, number, now_ms, request)
    if not errors:
        decision = ALLOWED
    else:
        decision = DENIED if all(code in REFUSALS for code in errors) else FAILED
        event["status_code"] = name_of(next(iter(errors)))
        unmapped["errors"] = {name_of(code): count for code, count in errors.items()}
    _status(event, decision, unmapped)
    event |= _request(origin, request, unmapped)
    if errors:
        event["api"]["response"] = {"error": event["status_code"]}
    if offsets:
        unmapped["metadata_offsets"] = [list(pair) for pair in offsets]
    return event


def denial(node: Node, number: int, now_ms: int, origin: Origin, request: Requested, operation: str,
           error: int) -> Event:
    """Return the event of an access that the authorizer denied. `request` names the resource only."""
    event = _api_activity(node, number, now_ms, _ACTIVITY.get(request.api_key, READ))
    unmapped: Event = {"node_id": node.node_id, "listener": origin.listener, "operation": operation}
    _status(event, DENIED, unmapped)
    event["status_code"] = name_of(error)
    event |= _request(origin, request, unmapped)
    event["api"]["response"] = {"error": event["status_code"]}
    event["actor"]["authorizations"] = [{"decision": "denied"}]
    return event


def access(node: Node, number: int, now_ms: int, origin: Origin, request: Requested) -> Event:
    """Return the event of a Produce or a Fetch that has arrived."""
    event = _api_activity(node, number, now_ms, _ACTIVITY.get(request.api_key, READ))
    unmapped: Event = {"node_id": node.node_id, "listener": origin.listener}
    _status(event, REQUESTED, unmapped)
    event |= _request(origin, request, unmapped)
    return event


def loss(node: Node, number: int, now_ms: int, where: str, count: int) -> Event:
    """Return the event that events were discarded."""
    event = _event(node, number, now_ms, LOG_ACTIVITY, LOG_DISCARDED, "Other")
    unmapped: Event = {"node_id": node.node_id}
    _status(event, FAILED, unmapped)
    event |= {"log_name": where, "count": count, "unmapped": unmapped,
              "message": f"{count} audit events were discarded: their queue was full"}
    return event


def repeated(node: Node, number: int, template: Event, count: int, first_ms: int, last_ms: int) -> Event:
    """Return the event that stands for `count` further ones like `template`."""
    return {**template, "time": last_ms, "count": count, "start_time": first_ms, "end_time": last_ms,
            "metadata": {**template["metadata"], "uid": _uid(node, number)}}


def _api_activity(node: Node, number: int, now_ms: int, activity: int) -> Event:
    return _event(node, number, now_ms, API_ACTIVITY, activity, ACTIVITIES[activity])


def _class_of(node: Node, number: int, now_ms: int, request: Requested) -> Event:
    """Return the event of a request's class. A change of credentials is one of the first account that it names."""
    if request.api_key != ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
        return _api_activity(node, number, now_ms, _ACTIVITY[request.api_key])
    account = request.resources[0] if request.resources else Named("user", "")
    is_deletion = account.details == ("delete",)
    event = _event(node, number, now_ms, ACCOUNT_CHANGE, ACCOUNT_DELETE if is_deletion else PASSWORD_CHANGE,
                   "Delete" if is_deletion else "Password Change")
    event["user"] = _user(Principal.user(account.name))
    return event


def _request(origin: Origin, request: Requested, unmapped: Event) -> Event:
    if request.is_cut:
        unmapped["resources_cut"] = True
    if request.is_dry_run:
        unmapped["dry_run"] = True
    return {"actor": _actor(origin), "api": {"operation": request.api_name, "version": str(request.version),
                                             "service": {"name": "kafka"}},
            "resources": [_resource(each) for each in request.resources],
            "src_endpoint": _endpoint(origin), "unmapped": unmapped}


def _resource(named: Named) -> Event:
    found: Event = {"type": named.kind, "name": named.name}
    if named.details:
        found["labels"] = list(named.details)
    return found


def _actor(origin: Origin) -> Event:
    return {"user": _user(origin.principal), "app_name": cut(origin.client_id)}


def _endpoint(origin: Origin) -> Event:
    return {"ip": origin.host, "port": origin.port} if origin.port else {"ip": origin.host}
