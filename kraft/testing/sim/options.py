"""Options of a run, drawn from its seed (swarm testing). A run in which every fault occurs all the time never gets far.
So each run has some of the faults, each at its own rate, and in many runs some are off.

An `Options` is data that can be printed and reduced: `shrink` searches for the fewest faults that still break an
invariant.
"""

from dataclasses import asdict, dataclass, fields, replace
from random import Random
from typing import Any, Final, Self

MILLISECOND: Final = 1000
SECOND: Final = 1_000_000
TURNS_US: Final = (0, 0, 500, 20_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of one run. Names in `_every_ms` are mean intervals between two faults of a kind; 0: never. Names in
    `_per_mille` are odds for one message, write or flush. `_ppm` is the error of a clock.

    `fault_seconds`: length of the phase with faults. After it everything is healed, and the quorum must converge within
    `heal_seconds`.
    """

    voters: int = 3
    observers: int = 0
    dynamic: bool = True                # kraft.version 1: the voters are records of the log
    old_peers: int = 0                  # nodes that do not know pre-votes
    fault_seconds: int = 30
    heal_seconds: int = 40

    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    fetch_max_bytes: int = 8 << 20

    delay_ms: int = 2                   # of a message, minimum
    jitter_ms: int = 2                  # added to the delay, at most
    drop_per_mille: int = 0
    duplicate_per_mille: int = 0
    late_per_mille: int = 0             # overtaken by later ones
    late_ms: int = 0
    damage_per_mille: int = 0
    refuse_per_mille: int = 1000        # an unreachable peer is reported at once, not by a time-out

    cut_every_ms: int = 0               # in one direction
    part_every_ms: int = 0              # the nodes split into two parts, cut in both directions
    isolate_every_ms: int = 0           # one node alone: the leader, if one exists, every other time
    flap_every_ms: int = 0              # a link is cut and healed again and again
    cut_ms: int = 3000                  # duration of such faults, about

    kill_every_ms: int = 0              # the process dies
    power_every_ms: int = 0             # the process dies, and the machine loses what was not flushed
    blackout_every_ms: int = 0          # all machines at once
    down_ms: int = 2000                 # until the node starts again, about
    pause_every_ms: int = 0
    pause_ms: int = 2000
    relocate_every_ms: int = 0          # all nodes die and come back at other addresses
    silent_address_per_mille: int = 0   # odds that an abandoned address does not answer
    slow_address_per_mille: int = 0     # odds that it refuses connections late
    slow_address_ms: int = 2000         # maximum of that delay
    roll_every_ms: int = 0              # rolling restart: the nodes stop gracefully and start, one by one
    turn_us: int = 0                    # longest duration of an event loop iteration; more happens in a long one
    skew_ppm: int = 0
    jump_every_ms: int = 0
    jump_ms: int = 500

    flush_us: int = 500                 # about
    slow_flush_per_mille: int = 0
    slow_flush_ms: int = 1000
    fail_flush_every_ms: int = 0
    fail_write_every_ms: int = 0        # EIO or ENOSPC
    fail_state_every_ms: int = 0        # of the quorum-state file
    rot_every_ms: int = 0               # a flipped bit, found at the next start
    wipe_every_ms: int = 0              # a new disk, with a new directory id

    garble_every_ms: int = 0            # quorum-state cannot be read at the next start
    newer_every_ms: int = 0             # the node is started by a release that does not know its quorum-state

    propose_every_ms: int = 100
    value_bytes: int = 200
    clients: int = 2
    snapshot_every_offsets: int = 0
    snapshot_bytes: int = 2000
    change_every_ms: int = 0            # a voter is added or removed
    reassign_every_ms: int = 0          # a reassignment (KIP-642), or its cancellation
    resign_every_ms: int = 0            # the leader is made to resign

    relocation: bool = False            # only restarts of three voters at new addresses: `sim.relocation`

    brokers: int = 0                    # 0: only a quorum. The following options are about brokers
    combined: bool = True               # voters are brokers, too
    topics: int = 1
    partitions: int = 2                 # of each topic
    replication: int = 3
    min_insync: int = 2
    elr: bool = True                    # eligible leader replicas (KIP-966)
    unclean: bool = False               # unclean.leader.election.enable
    durability: int = 0                 # 0 page-cache, 1 group-commit, 2 per-append
    window: int = 3                     # in-flight batches of a producer
    produce_every_ms: int = 60
    delivery_ms: int = 0                # after which a producer gives up and bumps its epoch; 0: never
    session_ms: int = 1500
    grace_ms: int = 200                 # of a broker whose connection was closed; 0: unnoticed, and no broker is probed
    lag_ms: int = 1000
    idle_ms: int = 0
    fetch_wait_ms: int = 200
    fetch_batches: int = 10
    shutdown_every_ms: int = 0          # a broker is stopped gracefully
    topic_every_ms: int = 0             # a topic is deleted or created again
    move_every_ms: int = 0              # a partition is reassigned, or its reassignment is cancelled
    elect_every_ms: int = 0             # the preferred leaders are elected; unclean ones in unclean runs
    delete_every_ms: int = 0            # old records are deleted
    shuffle_every_ms: int = 0           # a partition's leadership rotates while answers are held back
    reboot_every_ms: int = 0            # a follower loses power and restarts before its last Fetch arrives
    zombie_every_ms: int = 0            # the active controller's quorum connections hang, its others work
    zombie_moves: int = 0               # partitions that the successor of such a controller reassigns at once
    resize: bool = False                # a reassignment changes the number of replicas, or is requested again
    directories: int = 1                # of each broker
    directory_every_ms: int = 0         # one of them, but not the first, fails until the process restarts
    reset_every_ms: int = 0             # a broker's connection to the controller breaks; the link may be cut with it
    stall_every_ms: int = 0             # a producer's requests are held back until it uses another connection
    leader_checks: bool = False         # a producer that failed requests Metadata, which checks leaders
    refusal_every_ms: int = 0           # a live broker refuses connections of one node, or one of them hangs
    step_us: int = 0                    # longest pause between two steps of the metadata machine; 0: there is none
    transactions: int = 0               # transactional clients; 0: none, and no coordinators
    share: int = 0                      # share partitions whose leaders write to share coordinators
    readers: int = 1                    # of each isolation level, for each partition
    transaction_version: int = 2        # finalized at the start
    level_every_ms: int = 0             # transaction.version is changed
    transaction_ms: int = 2000          # time-out of transactions
    transaction_every_ms: int = 100     # pause between two of a client, about
    request_ms: int = 1500              # request.timeout.ms of brokers and clients
    repeat_per_mille: int = 0           # requests of transactional clients that arrive again, late
    abandon_per_mille: int = 0          # transactions that their client abandons, or continues after a new epoch began
    abort_per_mille: int = 150          # transactions that their client aborts
    stuck_per_mille: int = 0            # batches that arrive after their client has given them up
    epochs: int = 0                     # of a producer id; 0: as many as in production
    coordinate_every_ms: int = 0        # messages of coordinators to brokers are held back
    checks_every_ms: int = 0            # answers to checks of transactions are held back, between all brokers
    expiry_check_ms: int = 3_600_000    # between two searches for expired transactional ids
    id_expiration_ms: int = 604_800_000
    groups: int = 0                     # of consumers; 0: none
    members: int = 3                    # of each group, at most
    group_topics: int = 2               # that groups consume
    group_partitions: int = 3           # of each of these at first
    classic_per_mille: int = 0          # members that use the classic protocol
    cooperates: bool = False            # these cooperate (KIP-429)
    static_per_mille: int = 0           # members that have an instance id
    regex_per_mille: int = 0            # members that subscribe by a regular expression
    migration_policy: int = 3           # 0 disabled, 1 upgrade, 2 downgrade, 3 bidirectional
    group_session_ms: int = 2000        # session time-out of members
    group_rebalance_ms: int = 3000      # rebalance time-out of members
    heartbeat_ms: int = 150             # between two heartbeats of a member, about
    assignment_ms: int = 0              # between two targets of a consumer group
    commit_per_mille: int = 300         # odds that a member commits after a heartbeat
    member_every_ms: int = 700          # a member joins, leaves, dies, hangs, or changes its subscription
    group_topic_every_ms: int = 0       # a topic of groups is deleted, created again, or grows
    group_level_every_ms: int = 0       # group.version is changed
    group_setting_every_ms: int = 0     # a setting of a group is changed
    clean_per_mille: int = 0            # loads of a coordinator that meet the cleaner at work
    quiet_seconds: int = 0              # after each phase with faults, while nothing happens but time-outs
    phases: int = 1                     # phases with faults, each with a quiet one after it
    swap_ms: int = 200                  # between two leaders of a rotating leadership, about
    hold_ms: int = 600                  # how long answers or requests are held back, about

    def without(self, name: str) -> Self:
        """Return these options with one of them reset to its default."""
        return self.where(**{name: DEFAULTS[name]})

    def where(self, **values: Any) -> Self:
        """Return these options with other values for some."""
        return replace(self, **values)

    @property
    def changed(self) -> dict[str, int | bool]:
        """Options that differ from their defaults."""
        return {name: value for name, value in asdict(self).items() if value != DEFAULTS[name]}

    def __str__(self) -> str:
        return " ".join(f"{name}={int(value)}" for name, value in self.changed.items())


DEFAULTS: Final[dict[str, int | bool]] = asdict(Options())
NAMES: Final = tuple(field.name for field in fields(Options))


def parse(text: str) -> Options:
    """Parse options as `str` writes them. Raises a `ValueError` for an unknown name."""
    values: dict[str, int | bool] = {}
    for item in text.split():
        name, _, value = item.partition("=")
        if name not in DEFAULTS:
            raise ValueError(f"{name!r} is no option")
        values[name] = bool(int(value)) if isinstance(DEFAULTS[name], bool) else int(value)
    return Options().where(**values)


def draw(random: Random) -> Options:
    """Draw the options of one run."""
    options = Options().where(
        **_cluster(random), **_network(random), **_deaths(random), **_disks(random), **_load(random))
    if options.old_peers:
        # A peer without pre-votes, whose log cannot win, raises the epoch after each back-off. If the back-off is
        # shorter than an election, no other node is ever elected. KIP-996 was written to solve this.
        options = options.where(election_backoff_max_ms=max(300, options.election_backoff_max_ms))
    options = options.where(turn_us=random.choice(TURNS_US), garble_every_ms=some(random, 0.15, 3000, 30_000))
    return options.where(
        relocate_every_ms=some(random, 0.2, 3000, 30_000), silent_address_per_mille=random.choice((0, 300, 1000)),
        slow_address_per_mille=random.choice((0, 300)), slow_address_ms=random.choice((500, 2000)))


def some(random: Random, odds: float, low: int, high: int) -> int:
    """Draw 0 as a rule, otherwise a value in the range, log-uniformly."""
    if random.random() >= odds:
        return 0
    return int(low * (high / low) ** random.random())


def _cluster(random: Random) -> dict[str, int | bool]:
    voters = random.choice((1, 2, 3, 3, 3, 3, 4, 5, 5))
    dynamic = random.random() < 0.8
    return {
        "voters": voters,
        "observers": random.choice((0, 0, 1, 2)),
        "dynamic": dynamic,
        "old_peers": random.randrange(voters + 1) if random.random() < 0.15 else 0,
        "fault_seconds": random.choice((10, 20, 40, 80)),
        "election_timeout_ms": random.choice((100, 300, 1000, 1000)),
        "election_backoff_max_ms": random.choice((3, 50, 300, 1000, 1000)),
        "fetch_timeout_ms": random.choice((600, 1000, 2000, 2000)),
        "fetch_max_bytes": random.choice((1, 500, 4000, 8 << 20, 8 << 20)),
    }


def _network(random: Random) -> dict[str, int | bool]:
    return {
        "delay_ms": random.choice((0, 1, 2, 10, 50)),
        "jitter_ms": random.choice((1, 3, 20, 100)),
        "drop_per_mille": some(random, 0.5, 2, 200),
        "duplicate_per_mille": some(random, 0.4, 2, 300),
        "late_per_mille": some(random, 0.4, 2, 200),
        "late_ms": random.choice((50, 500, 3000)),
        "damage_per_mille": some(random, 0.2, 2, 50),
        "refuse_per_mille": random.choice((0, 500, 1000)),
        "cut_every_ms": some(random, 0.35, 500, 10_000),
        "part_every_ms": some(random, 0.35, 1000, 15_000),
        "isolate_every_ms": some(random, 0.35, 1000, 15_000),
        "flap_every_ms": some(random, 0.25, 1000, 15_000),
        "cut_ms": random.choice((300, 1000, 3000, 8000)),
    }


def _deaths(random: Random) -> dict[str, int | bool]:
    return {
        "kill_every_ms": some(random, 0.4, 500, 15_000),
        "power_every_ms": some(random, 0.5, 500, 15_000),
        "blackout_every_ms": some(random, 0.2, 3000, 20_000),
        "down_ms": random.choice((50, 500, 2000, 6000)),
        "pause_every_ms": some(random, 0.3, 1000, 15_000),
        "pause_ms": random.choice((100, 1000, 4000)),
        "roll_every_ms": some(random, 0.15, 5000, 30_000),
        "skew_ppm": some(random, 0.4, 100, 100_000),
        "jump_every_ms": some(random, 0.2, 1000, 10_000),
        "jump_ms": random.choice((100, 1000, 5000)),
    }


def _disks(random: Random) -> dict[str, int | bool]:
    return {
        "flush_us": random.choice((50, 500, 5000, 50_000)),
        "slow_flush_per_mille": some(random, 0.3, 1, 100),
        "slow_flush_ms": random.choice((100, 1000, 10_000)),
        "fail_flush_every_ms": some(random, 0.2, 2000, 30_000),
        "fail_write_every_ms": some(random, 0.2, 2000, 30_000),
        "fail_state_every_ms": some(random, 0.15, 2000, 30_000),
        "rot_every_ms": some(random, 0.15, 3000, 30_000),
        "wipe_every_ms": some(random, 0.2, 3000, 30_000),
        "newer_every_ms": some(random, 0.1, 3000, 30_000),
    }


def _load(random: Random) -> dict[str, int | bool]:
    return {
        "propose_every_ms": random.choice((30, 100, 300, 1000)),
        "value_bytes": random.choice((60, 200, 1500)),
        "clients": random.choice((1, 2, 4)),
        "snapshot_every_offsets": random.choice((0, 10, 50, 300)),
        "snapshot_bytes": random.choice((100, 2000, 20_000)),
        "change_every_ms": some(random, 0.4, 300, 10_000),
        "reassign_every_ms": some(random, 0.25, 1000, 20_000),
        "resign_every_ms": some(random, 0.2, 1000, 20_000),
    }
