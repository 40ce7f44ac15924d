"""Members of groups that join, sync, commit, stall, leave and die, around a coordinator with faults.

Appends of the coordinator fail, lag and are cut off. Time is virtual, and everything random comes from one seed.
`Model.run` checks the invariants after every step.
"""

import dataclasses
import random
from typing import Any

from kraft.broker.coordinator.shard import Producer, Shard
from kraft.broker.groups.classic.group import ClassicGroup, GroupState
from kraft.broker.groups.group_records import GroupReplay, OffsetReplay, decode
from kraft.broker.groups.offsets import TopicOffsets
from kraft.broker.groups.shard import GroupShard
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from tests.broker.groups.group_client import commit, join, subscription, sync, txn_commit
from tests.broker.node import Node, Pending

GROUPS = ("alpha", "beta", "gamma")
PRODUCERS = (11, 12)
RETRY = {14, 15, 16}
APPEND_ERRORS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE)


@dataclasses.dataclass
class Client:
    """One consumer process. `waiting` is its pending request, `doing` the step that the response belongs to."""

    name: str
    group: str
    instance: str | None
    versions: tuple[int, int]      # of JoinGroup and SyncGroup
    protocols: dict[str, bytes]
    member_id: str = ""
    generation: int = -1
    joined: Any = None
    stable: bool = False
    alive: bool = True
    waiting: Pending | None = None
    doing: str = ""
    heartbeat_at_ms: int = 0


class Model:
    """The groups, their clients and their coordinator. Everything random comes from `seed`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.node = Node(2, lag=True, group_initial_rebalance_delay_ms=self.random.choice([0, 3_000]),
                         group_max_size=self.random.choice([3, 100]), new_member_join_timeout_ms=20_000)
        self.clients: list[Client] = []
        self.count = 0
        self.next_offset = 1
        self.sent: dict[tuple[str, str, int], list[int]] = {}
        self.acknowledged: dict[tuple[str, str, int], int] = {}     # -> position of the last record
        self.leaders: dict[tuple[str, int, int], str] = {}     # (group, life of the coordinator, generation) -> leader
        self.life = 0
        self.assigned = 0
        self.quiet = False

    # ---------------------------------------------------------------- steps

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            self.check()
        self.settle()

    def step(self) -> None:
        actions = [(12, self.act), (2, self.spawn), (1, self.die), (1, self.depart), (4, self.commit_log),
                   (6, self.wait), (1, self.break_log), (1, self.repair_log), (1, self.kill), (1, self.resign),
                   (2, self.verify), (2, self.end_transaction)]
        weights = [weight for weight, _ in actions]
        self.random.choices([action for _, action in actions], weights)[0]()
        self.receive()

    def settle(self) -> None:
        """End all faults: every live client reaches a stable group, and no request stays unanswered."""
        self.quiet = True
        self.repair_log()
        self.node.load()
        for _ in range(600):
            self.verify()
            self.node.commit()
            self.receive()
            self.act()
            self.node.advance(250)
            self.check()
        self.node.commit()
        self.receive()
        for client in self.clients:
            if client.alive and not self.is_full(client):
                assert client.stable, client
        for group_id in GROUPS:
            alive = [client for client in self.clients if client.alive and client.group == group_id and client.stable]
            group = self.node.group(group_id)
            if alive:
                assert group.state is GroupState.STABLE
                assert {client.generation for client in alive} == {group.generation_id}
                assert {client.member_id for client in alive} == set(group.members)
        for client in self.clients:
            assert client.waiting is None or not client.alive or self.is_full(client), client

    def is_full(self, client: Client) -> bool:
        alive = [other for other in self.clients if other.alive and other.group == client.group]
        return len(alive) > self.node.config.group_max_size

    # ---------------------------------------------------------------- clients

    def spawn(self) -> None:
        alive = [client for client in self.clients if client.alive]
        if len(alive) >= 9 or self.quiet:
            return
        self.count += 1
        group = self.random.choice(GROUPS)
        taken = {client.instance for client in alive if client.group == group}
        instances = [name for name in ("red", "blue") if name not in taken]
        instance = self.random.choice(instances) if instances and self.random.random() < 0.4 else None
        join_version = self.random.choice([3, 6, 9]) if instance is None else self.random.choice([5, 8, 9])
        protocols = {"range": subscription("orders"), "sticky": b"\0\1" + bytes(4)}
        if self.random.random() < 0.3:
            protocols = {"sticky": b"\0\1" + bytes(4), "range": subscription("clicks")}
        self.clients.append(Client(f"c{self.count}", group, instance, (join_version, 5 if join_version > 6 else 3),
                                   protocols))

    def die(self) -> None:
        """A process dies without leaving the group; a static member often comes back under its name."""
        client = self.pick()
        if client is not None and not self.quiet:
            client.alive = False
            if client.instance is not None and self.random.random() < 0.7:
                self.clients.append(dataclasses.replace(
                    client, alive=True, member_id="", generation=-1, joined=None, stable=False, waiting=None))

    def depart(self) -> None:
        client = self.pick()
        if client is not None and client.member_id and client.instance is None and not self.quiet:
            client.alive = False
            request = leave_request(client)
            self.node.send(request)

    def pick(self) -> Client | None:
        alive = [client for client in self.clients if client.alive]
        return self.random.choice(alive) if alive else None

    def act(self) -> None:
        """Let clients do their next step, in random order, some of the time."""
        clients = [client for client in self.clients if client.alive and client.waiting is None]
        self.random.shuffle(clients)
        for client in clients:
            if self.quiet or self.random.random() < 0.6:
                self.act_one(client)

    def act_one(self, client: Client) -> None:
        if client.joined is None:
            client.stable = False
            client.doing = "join"
            client.waiting = join(self.node, client.group, client.member_id, instance=client.instance,
                                  version=client.versions[0], protocols=client.protocols, client=client.name)
        elif not client.stable:
            assignments = None
            if client.joined.members and not client.joined.skip_assignment:
                self.assigned += 1
                assignments = {member.member_id: f"{self.assigned} for {member.member_id}".encode()
                               for member in client.joined.members}
            client.doing = "sync"
            protocol = {"protocol_type": "consumer"} if client.versions[1] == 5 else {"protocol_type": None}
            name = client.joined.protocol_name if client.versions[1] == 5 else None
            client.waiting = sync(self.node, client.joined, client.group, assignments=assignments,
                                  version=client.versions[1], group_instance_id=client.instance, protocol_name=name,
                                  **protocol)
        elif client.heartbeat_at_ms <= self.node.now_ms:
            client.heartbeat_at_ms = self.node.now_ms + 3_000
            client.doing = "heartbeat"
            client.waiting = self.node.send(HeartbeatRequest(
                group_id=client.group, generation_id=client.generation, member_id=client.member_id,
                group_instance_id=client.instance))
        elif not self.quiet:
            self.commit_offset(client)

    def commit_offset(self, client: Client) -> None:
        key = (client.group, "orders", self.random.randrange(4))
        offset, self.next_offset = self.next_offset, self.next_offset + 1
        self.sent.setdefault(key, []).append(offset)
        if self.random.random() < 0.3:
            client.doing = "txn"
            client.waiting = txn_commit(self.node, {key[1:]: offset}, client.group,
                                        producer=Producer(self.random.choice(PRODUCERS), 0), member=client.member_id,
                                        generation=client.generation, instance=client.instance)
            return
        client.doing = f"commit {key[2]} {offset}"
        client.waiting = commit(self.node, {key[1:]: offset}, client.group, member=client.member_id,
                                generation=client.generation, instance=client.instance)

    def receive(self) -> None:
        """Let clients read their responses."""
        for client in list(self.clients):
            if client.waiting is not None and client.waiting.answered and client.alive:
                response, client.waiting = client.waiting.response, None
                if client.doing.startswith("commit"):
                    _, partition, offset = client.doing.split()
                    self.on_commit(client, response, int(partition), int(offset))
                else:
                    getattr(self, f"on_{client.doing}")(client, response)

    def on_error(self, client: Client, error: int) -> None:
        if error in RETRY:
            return
        if error == ErrorCode.FENCED_INSTANCE_ID:
            client.alive = False
            return
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.GROUP_MAX_SIZE_REACHED,
                     ErrorCode.GROUP_ID_NOT_FOUND):
            client.member_id = ""
        else:
            assert error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_SERVER_ERROR), (error, client)
        client.joined = None
        client.stable = False

    def on_join(self, client: Client, response: Any) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
            return
        if response.error_code:
            self.on_error(client, response.error_code)
            return
        key = (client.group, self.life, response.generation_id)
        if response.members and not response.skip_assignment:
            assert response.leader == response.member_id
            assert self.leaders.setdefault(key, response.leader) == response.leader, "two leaders in one generation"
        assert response.protocol_name in client.protocols
        client.joined = response
        client.member_id = response.member_id
        client.generation = response.generation_id

    def on_sync(self, client: Client, response: Any) -> None:
        if response.error_code:
            self.on_error(client, response.error_code)
            return
        recorded = self.committed_group(client.group)
        assert recorded is not None, "a generation is announced that is not committed"
        if recorded.generation == client.generation:
            (member,) = [m for m in recorded.members if m.member_id == client.member_id] or [None]
            if member is not None:
                assert member.assignment == response.assignment
                assert response.assignment.endswith(f"for {client.member_id}".encode()) or client.instance \
                    or response.assignment == b""
        else:
            assert recorded.generation > client.generation
        client.stable = True

    def on_heartbeat(self, client: Client, response: Any) -> None:
        if response.error_code:
            self.on_error(client, response.error_code)

    def on_commit(self, client: Client, response: Any, partition: int, offset: int) -> None:
        (error,) = [p.error_code for topic in response.topics for p in topic.partitions]
        if error:
            self.on_error(client, error)
            return
        key = (client.group, "orders", partition)
        self.acknowledged[key] = max(self.acknowledged.get(key, 0), self.record_of(key, offset))

    def record_of(self, key: tuple[str, str, int], offset: int) -> int:
        """Return the position of a commit in the log. A transaction that is verified late is appended behind commits
        that were sent after it, so the order of the records counts, not that of the requests."""
        (found,) = [record.offset for record in self.node.logs.stored(self.partition_of(key[0]))
                    if isinstance(replayed := decode(record), OffsetReplay) and replayed.offset is not None
                    and (replayed.group_id, replayed.topic, replayed.partition) == key
                    and replayed.offset.offset == offset]
        return found

    def on_txn(self, client: Client, response: Any) -> None:
        (error,) = [p.error_code for topic in response.topics for p in topic.partitions]
        if error:
            self.on_error(client, error)

    # ---------------------------------------------------------------- coordinator and log

    def verify(self) -> None:
        """Confirm all transactions that are being verified, and hold later ones sometimes."""
        self.node.verifications.finish(now_ms=self.node.now_ms)
        self.node.verifications.held = not self.quiet and self.random.random() < 0.5

    def end_transaction(self) -> None:
        """Append the marker of one producer to the partition of one group."""
        if self.node.logs.error is None:
            self.node.end_transaction(self.random.choice(GROUPS), self.random.choice(PRODUCERS),
                                      committed=self.random.random() < 0.6)

    def commit_log(self) -> None:
        self.node.commit()

    def wait(self) -> None:
        self.node.advance(self.random.choice([10, 500, 2_000, 7_000]))

    def break_log(self) -> None:
        self.node.logs.error = self.random.choice(APPEND_ERRORS)

    def repair_log(self) -> None:
        self.node.logs.error = None

    def kill(self) -> None:
        """Kill the process. Any whole batches that were not committed may be lost, and open requests break off."""
        logs = self.node.logs
        for partition in range(2):
            ends = [end for end in logs.batches[partition] if end > logs.committed[partition]]
            logs.truncate(partition, self.random.choice([logs.committed[partition], *ends]))
        self.node.verifications.open.clear()
        self.node.kill()
        self.life += 1
        for client in self.clients:
            client.waiting = None

    def resign(self) -> None:
        """Take leadership of one partition from the node and return it; every answer must come."""
        partition = self.random.randrange(2)
        self.node.epoch += 1
        self.node.coordinator.shards.resign(partition, self.node.epoch)
        self.life += 1
        for client in self.clients:
            if client.waiting is not None and self.partition_of(client.group) == partition:
                assert client.waiting.answered, f"left without an answer: {client}"
        self.node.load()

    def partition_of(self, group_id: str) -> int:
        return self.node.coordinator.shards.partition_for(group_id)

    # ---------------------------------------------------------------- invariants

    def check(self) -> None:
        for partition in range(2):
            _, state = self.node.coordinator.shards.serving(partition, self.node.now_ms)
            self.check_replay(partition, state)
            for group in state.groups.values():
                if isinstance(group, ClassicGroup):
                    self.check_group(group)
        for key, record_offset in self.acknowledged.items():
            stored = self.node.state_of(key[0]).offsets.get(*key)
            assert stored is not None, f"an acknowledged commit is lost: {key}"
            assert stored.record_offset >= record_offset, key
            assert stored.offset in self.sent[key]

    def check_group(self, group: ClassicGroup) -> None:
        awaiting = sum(member.awaiting_join is not None for member in group.members.values())
        assert awaiting == group.awaiting_join_count
        assert group.leader_id is None or group.leader_id in group.members or not group.members
        assert set(group.static_members.values()) <= set(group.members)
        assert not set(group.pending_join_members) & set(group.members)
        if group.state is GroupState.STABLE:
            assert group.members
            assert all(member.awaiting_join is None and member.awaiting_sync is None
                       for member in group.members.values())
        if group.state is GroupState.EMPTY:
            assert not group.members
        for name, votes in group.supported_protocols.items():
            assert votes == sum(name in dict(member.protocols) for member in group.members.values())

    def check_replay(self, partition: int, state: GroupShard) -> None:
        """Check that the state after a restart is exactly what the records say."""
        again = GroupShard(Shard(partition, 1, self.node.logs, 5_000), state.environment)
        self.node.logs.replay(partition, again)
        assert set(again.groups) == set(state.groups)
        for group_id, group in state.groups.items():
            recorded = again.groups[group_id]
            assert isinstance(group, ClassicGroup)
            assert isinstance(recorded, ClassicGroup)
            if group.state in (GroupState.STABLE, GroupState.EMPTY):
                assert persistent(group) == persistent(recorded)
            else:
                assert recorded.generation_id <= group.generation_id
            assert offsets_of(again, group_id) == offsets_of(state, group_id)

    def committed_group(self, group_id: str) -> Any:
        """Last committed record of a group."""
        partition = self.partition_of(group_id)
        found = None
        for record in self.node.logs.stored(partition):
            if record.offset >= self.node.logs.committed[partition]:
                break
            replayed = decode(record)
            if isinstance(replayed, GroupReplay) and replayed.group_id == group_id:
                found = replayed.value
        return found


def persistent(group: ClassicGroup) -> Any:
    """State of a group that survives a restart."""
    return (group.state, group.generation_id, group.protocol_type, group.protocol_name, group.leader_id,
            group.state_timestamp_ms, group.subscribed_topics, group.static_members,
            [(m.member_id, m.group_instance_id, m.client_id, m.client_host, m.session_timeout_ms,
              m.rebalance_timeout_ms, m.assignment) for m in group.members.values()])


def offsets_of(state: GroupShard, group_id: str) -> tuple[TopicOffsets, list[bool]]:
    """Return the committed offsets of a group, and whether a transaction is about to change those of "orders"."""
    return state.offsets.of_group(group_id), [state.offsets.is_pending(group_id, "orders", index) for index in range(4)]


def leave_request(client: Client) -> Any:
    from kraft.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
    return LeaveGroupRequest(group_id=client.group, members=[
        MemberIdentity(member_id=client.member_id, group_instance_id=client.instance)])
