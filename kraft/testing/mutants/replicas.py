"""Bugs in replicas, fetchers and logs of partitions. They are applied to the models of the compiled code."""

from typing import Any, Final

from kraft.protocol.error_codes import ErrorCode
from kraft.testing.brokers import fetcher
from kraft.testing.brokers.broker import Broker
from kraft.testing.brokers.disk import NOT_CLEAN, BrokerDisk
from kraft.testing.brokers.fetcher import Fetcher
from kraft.testing.brokers.log import NO_STATE, ProducerState, ReplicaLog
from kraft.testing.brokers.messages import CONSUMER, FetchedPart, FetchPart, Produce
from kraft.testing.brokers.partition import Partition
from kraft.testing.mutants.patches import Collection, Patches

REPLICAS = Collection()

INDEX_EVERY = 4
RECORDS_THAT_DO_NOT_FIT = 3


@REPLICAS.add(28, "KAFKA-14704")
def high_watermark_before_truncation(patches: Patches) -> None:
    """A follower raises its high watermark before it truncates diverging records."""
    def around(original: Any) -> Any:
        def take_part(self: Fetcher, part: FetchedPart, followed: Any) -> None:
            if part.diverging is not None and followed.leader_epoch == followed.partition.leader_epoch:
                followed.partition.follow_marks(part.high_watermark, part.log_start)
            original(self, part, followed)

        return take_part

    patches.wrap(Fetcher, "take_part", around)


@REPLICAS.add(29, "KAFKA-13091")
def high_watermark_stays_after_isr_shrink(patches: Patches) -> None:
    """The high watermark does not move when the ISR shrinks, until the next fetch or append."""
    def set_isr(partition: Any, isr: tuple[int, ...], maximal: tuple[int, ...] | None = None) -> None:
        partition._reset((partition.leader_id, *partition.progress), isr if maximal is None else maximal,
                         is_new_epoch=False)
        partition.in_sync_count = len(dict.fromkeys(isr))

    patches.put(Partition, "set_isr", set_isr)


@REPLICAS.add(34, "KAFKA-13207")
def truncated_by_a_fetcher_of_before(patches: Patches) -> None:
    """A fetcher handles an answer for a partition that another fetcher follows by now."""
    def around(original: Any) -> Any:
        def answered(self: Any, requested: Any, answer: Any) -> None:
            for key, followed in requested.items():
                if not followed.partition.is_removed and not followed.partition.is_leader:
                    followed.leader_epoch = followed.partition.leader_epoch
                    self.followed[key] = followed
            original(self, requested, answer)

        return answered

    patches.wrap(Fetcher, "_answered", around)


@REPLICAS.add(34, "KAFKA-13141")
def diverging_fetch_counts(patches: Patches) -> None:
    """A leader accepts the offset of a Fetch although the log before it diverges."""
    def around(original: Any) -> Any:
        def read(partition: Partition, part: FetchPart, replica_id: int, broker_epoch: int) -> FetchedPart:
            answer: FetchedPart = original(partition, part, replica_id, broker_epoch)
            if answer.diverging is not None:
                partition.note_replica(replica_id, part.fetch_offset, broker_epoch)
            return answer

        return read

    patches.wrap(Partition, "read", around)


@REPLICAS.add(35, "KAFKA-15510")
def empty_fetch_forgets_the_last_epoch(patches: Patches) -> None:
    """A follower forgets its last epoch after an answer without records, and does not send it."""
    def take_part(original: Any) -> Any:
        def take(self: Any, part: FetchedPart, followed: Any) -> None:
            original(self, part, followed)
            followed.partition.forgot_epoch = part.error == ErrorCode.NONE and not part.batches

        return take

    def last_epoch(original: Any) -> Any:
        return property(lambda partition: -1 if getattr(partition, "forgot_epoch", False)
                        else original.fget(partition))

    patches.wrap(Fetcher, "take_part", take_part)
    patches.wrap(Partition, "last_epoch", last_epoch)


@REPLICAS.add(36, "KAFKA-12996")
def diverging_below_the_log_start(patches: Patches) -> None:
    """A follower whose offset was deleted at the leader receives the point of divergence. It should restart its log."""
    def disagreement(partition: Partition, part: FetchPart) -> FetchedPart | None:
        epoch, end = partition.log.end_offset_for(part.last_epoch)
        if epoch < 0 or end < 0 or part.fetch_offset < partition.log.start_offset:
            return FetchedPart(part.key, ErrorCode.NONE, partition.log.high_watermark, partition.log.start_offset, (),
                               (epoch, max(end, part.fetch_offset)))
        if epoch < part.last_epoch or end < part.fetch_offset:
            return FetchedPart(part.key, ErrorCode.NONE, partition.log.high_watermark, partition.log.start_offset, (),
                               (epoch, end))
        return None

    patches.put(Partition, "disagreement", disagreement)


@REPLICAS.add(37, "KAFKA-10706")
def epochs_stay_after_truncation(patches: Patches) -> None:
    """The epoch cache keeps epochs whose records were truncated, even when others replace them."""
    def begin_epoch(log: ReplicaLog, epoch: int) -> None:
        if epoch not in [known for known, _ in log.epochs]:
            log.epochs.append((epoch, log.end_offset))
            log.epochs.sort()

    patches.put(ReplicaLog, "forget_epochs", lambda _log: None)
    patches.put(ReplicaLog, "begin_epoch", begin_epoch)


@REPLICAS.add(37, "KAFKA-10432")
def epoch_zero_is_none(patches: Patches) -> None:
    """Epoch 0 is treated as no epoch."""
    def around(original: Any) -> Any:
        return property(lambda partition: original.fget(partition) or -1)

    patches.wrap(Partition, "last_epoch", around)


@REPLICAS.add(38, "KAFKA-9491")
def high_watermark_stays_after_full_truncation(patches: Patches) -> None:
    """A restarted log keeps its high watermark."""
    patches.put(ReplicaLog, "reset_marks", lambda _log, _offset: None)


# Followers learn late from the controller and are far behind, while leaderships move around all the time.
@REPLICAS.add(39, "KAFKA-9838", brokers=3, voters=1, observers=3, combined=False, replication=3, min_insync=1, window=5,
              shuffle_every_ms=100, swap_ms=40, hold_ms=500, reset_every_ms=100, unclean=True, fetch_batches=1,
              produce_every_ms=40, lag_ms=150, fault_seconds=10, delay_ms=1, jitter_ms=1, drop_per_mille=0,
              late_per_mille=0, flush_us=100, slow_flush_per_mille=0, isolate_every_ms=0, part_every_ms=0,
              cut_every_ms=0, kill_every_ms=0, power_every_ms=0, blackout_every_ms=0, pause_every_ms=0,
              shutdown_every_ms=0, topic_every_ms=0, move_every_ms=0, elect_every_ms=0, resign_every_ms=0)
def read_races_with_truncation(patches: Patches) -> None:
    """An answer has records that were read before a truncation, and the high watermark of after it."""
    def reply(broker: Any, parked: Any, parts: Any) -> None:
        def answer() -> None:
            late = []
            for part in parts:
                partition = broker._by_key.get(part.key)
                late.append(part if partition is None or part.error or part.diverging is not None
                            else part._replace(high_watermark=partition.high_watermark))
            original(broker, parked, late)

        broker.later(30, answer)

    original: Any = vars(Broker)["_reply"]
    patches.put(Broker, "_reply", reply)


@REPLICAS.add(40, "KIP-101")
def truncates_to_the_high_watermark(patches: Patches) -> None:
    """A follower truncates its log to its high watermark, without a query about epochs."""
    def around(original: Any) -> Any:
        def become_follower(partition: Partition, leader_epoch: int, leader_id: int) -> None:
            is_new = leader_epoch > partition.leader_epoch
            original(partition, leader_epoch, leader_id)
            if is_new and leader_id >= 0:
                partition.cut_to(partition.high_watermark)

        return become_follower

    patches.wrap(Partition, "become_follower", around)
    patches.put(Partition, "last_epoch", property(lambda _partition: -1))


# A leadership leaves and returns before any replica is removed from the ISR.
@REPLICAS.add(40, "KIP-320", brokers=3, voters=3, observers=0, combined=True, replication=3, min_insync=2, window=5,
              shuffle_every_ms=300, produce_every_ms=40, lag_ms=1000, swap_ms=40, fault_seconds=10, isolate_every_ms=0,
              part_every_ms=0, cut_every_ms=0, kill_every_ms=0, power_every_ms=0, blackout_every_ms=0, pause_every_ms=0,
              shutdown_every_ms=0, topic_every_ms=0, move_every_ms=0, elect_every_ms=0, resign_every_ms=0)
def fetch_of_an_earlier_epoch_counts(patches: Patches) -> None:
    """A leader answers a Fetch of an earlier leader epoch, and accepts its offset."""
    def around(original: Any) -> Any:
        def fence(partition: Partition, current_leader_epoch: int, **wanted: bool) -> ErrorCode:
            code: ErrorCode = original(partition, max(current_leader_epoch, partition.leader_epoch), **wanted)
            return code

        return fence

    patches.wrap(Partition, "fence", around)


@REPLICAS.add(42, "KAFKA-14616")
def stray_data_of_a_topic_of_before(patches: Patches) -> None:
    """A log is found by the topic's name, whatever its id."""
    def around(original: Any) -> Any:
        def open_log(disk: BrokerDisk, topic: str, index: int, topic_id: Any) -> ReplicaLog:
            log: ReplicaLog = original(disk, topic, index, topic_id)
            log.topic_id = topic_id
            return log

        return open_log

    patches.put(BrokerDisk, "is_of", staticmethod(lambda _log, _topic_id: True))
    patches.wrap(BrokerDisk, "open", around)
    patches.wrap(Broker, "_remove", _keeps_the_log)


def _keeps_the_log(original: Any) -> Any:
    """Delete the files late, after the topic was created again."""
    def remove(broker: Any, step: Any) -> None:
        log = broker.node.broker_disk.logs.get((step.topic, step.number))
        original(broker, step)
        if log is not None:
            broker.node.broker_disk.logs[step.topic, step.number] = log

    return remove


@REPLICAS.add(43, "KAFKA-10371")
def removed_partition_crashes_the_fetcher(patches: Patches) -> None:
    """A fetcher that gets an answer for a removed partition ends, and is never restarted."""
    def around(original: Any) -> Any:
        def answered(self: Any, requested: Any, answer: Any) -> None:
            if answer is not None and any(followed.partition.is_removed for followed in requested.values()):
                self._is_pausing = True
            else:
                original(self, requested, answer)

        return answered

    patches.wrap(Fetcher, "_answered", around)


@REPLICAS.add(44, "KAFKA-17190")
def deleted_topic_is_fetched_repeatedly(patches: Patches) -> None:
    """A fetcher does not check before a retry whether the partition is still followed."""
    def around(original: Any) -> Any:
        def failed(self: Any, key: Any, error: int) -> None:
            original(self, key, error)
            if error == ErrorCode.UNKNOWN_TOPIC_ID and key not in self._broker.following:
                self._broker.later(fetcher.PAUSE_MS, again, self, key)

        return failed

    def again(self: Any, key: Any) -> None:
        self._failed(key, ErrorCode.UNKNOWN_TOPIC_ID)

    def take(original: Any) -> Any:
        def unfollow(self: Any, key: Any) -> None:
            followed = self.followed.get(key)
            original(self, key)
            if followed is not None and followed.partition.key[0] not in self._broker.image.topics:
                self._failed(key, ErrorCode.UNKNOWN_TOPIC_ID)

        return unfollow

    patches.wrap(Fetcher, "_failed", around)
    patches.wrap(Fetcher, "unfollow", take)


@REPLICAS.add(0, "Fetch: the high watermark")
def consumers_see_the_log_end(patches: Patches) -> None:
    """A consumer also receives records that are not committed."""
    patches.put(Partition, "visible_limit", lambda partition, _replica_id: partition.log.end_offset)


@REPLICAS.add(0, "Fetch: the high watermark is exclusive")
def last_committed_batch_is_held_back(patches: Patches) -> None:
    """A consumer receives a batch only when something after it is committed."""
    def around(original: Any) -> Any:
        return lambda partition, replica_id: original(partition, replica_id) - (replica_id == CONSUMER)

    patches.wrap(Partition, "visible_limit", around)


@REPLICAS.add(0, "Fetch: an offset inside a batch")
def batch_that_holds_the_offset_is_left_out(patches: Patches) -> None:
    """A Fetch of an offset inside a batch begins with the next one."""
    def around(original: Any) -> Any:
        def read(log: ReplicaLog, offset: int, limit: int, batches_max: int) -> Any:
            ends = (batch.end_offset for batch in log.batches if batch.base_offset < offset < batch.end_offset)
            return original(log, next(ends, offset), limit, batches_max)

        return read

    patches.wrap(ReplicaLog, "read", around)


@REPLICAS.add(0, "Fetch: a sparse index")
def read_begins_at_the_index_entry(patches: Patches) -> None:
    """A Fetch begins at the position in the index, some batches before the offset, and not at the offset."""
    def around(original: Any) -> Any:
        def read(log: ReplicaLog, offset: int, limit: int, batches_max: int) -> Any:
            found = log.batches.index(batches[0]) if (batches := original(log, offset, limit, batches_max)) else 0
            return (*log.batches[found - found % INDEX_EVERY:found], *batches)

        return read

    patches.wrap(ReplicaLog, "read", around)


@REPLICAS.add(0, "Fetch: the byte limit of an answer", fetch_batches=20)
def batch_that_does_not_fit_is_passed_over(patches: Patches) -> None:
    """A consumer's answer continues with a smaller batch when one does not fit into the remaining space."""
    def around(original: Any) -> Any:
        def read(partition: Partition, part: FetchPart, replica_id: int, broker_epoch: int) -> FetchedPart:
            answer: FetchedPart = original(partition, part, replica_id, broker_epoch)
            fit = [batch for number, batch in enumerate(answer.batches)
                   if number == 0 or batch.end_offset - batch.base_offset < RECORDS_THAT_DO_NOT_FIT]
            return answer._replace(batches=tuple(fit)) if replica_id == CONSUMER else answer

        return read

    patches.wrap(Partition, "read", around)


@REPLICAS.add(54, "idempotence: retry after a leader change")
def followers_do_not_know_producers(patches: Patches) -> None:
    """A follower keeps no producer state, so as a leader it accepts duplicates as new batches."""
    def around(original: Any) -> Any:
        def replicate(partition: Partition, batches: Any) -> bool:
            known = dict(partition.log.producers)
            is_fresh: bool = original(partition, batches)
            partition.log.producers = known
            return is_fresh

        return replicate

    patches.wrap(Partition, "replicate", around)


@REPLICAS.add(54, "idempotence: state after truncation")
def producers_survive_truncation(patches: Patches) -> None:
    """Truncated batches are still recognised as duplicates, so they are acknowledged and not written again."""
    patches.put(ReplicaLog, "rebuild_producers", lambda _log: None)


@REPLICAS.add(54, "idempotence: sequence gap")
def gaps_are_accepted(patches: Patches) -> None:
    """A batch is appended although the previous one is missing."""
    def around(original: Any) -> Any:
        def produce(partition: Partition, request: Any) -> Any:
            error, end = original(partition, request)
            if error != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                return error, end
            producers = partition.log.producers
            state = producers[request.producer]
            producers[request.producer] = ProducerState(state.epoch, ((request.sequence - 1, -1),))
            return original(partition, request)

        return produce

    patches.wrap(Partition, "produce", around)


@REPLICAS.add(54, "idempotence: epoch bump")
def sequences_survive_an_epoch_bump(patches: Patches) -> None:
    """A batch of a new producer epoch is compared with the sequences of the previous epoch."""
    def around(original: Any) -> Any:
        def produce(partition: Partition, request: Produce) -> Any:
            producers = partition.log.producers
            state = producers.get(request.producer, NO_STATE)
            if request.producer_epoch > state.epoch >= 0:
                producers[request.producer] = state._replace(epoch=request.producer_epoch)
            return original(partition, request)

        return produce

    patches.wrap(Partition, "produce", around)


@REPLICAS.add(54, "idempotence: fenced epoch")
def fenced_producer_epoch_is_accepted(patches: Patches) -> None:
    """A late batch of an earlier producer epoch is stored."""
    def around(original: Any) -> Any:
        def produce(partition: Partition, request: Produce) -> Any:
            producers = partition.log.producers
            if request.producer_epoch < producers.get(request.producer, NO_STATE).epoch:
                del producers[request.producer]
            return original(partition, request)

        return produce

    patches.wrap(Partition, "produce", around)


@REPLICAS.add(0, "KIP-966, clean stops", brokers=3, voters=1, observers=3, combined=False, replication=3, min_insync=3,
              elr=True, unclean=False, durability=0, directories=2, directory_every_ms=500, down_ms=300,
              fault_seconds=10, produce_every_ms=40, kill_every_ms=0, power_every_ms=0, blackout_every_ms=0,
              pause_every_ms=0, isolate_every_ms=0, part_every_ms=0, cut_every_ms=0, shuffle_every_ms=0,
              reboot_every_ms=0)
def stop_beside_a_failed_directory_is_clean(patches: Patches) -> None:
    """A broker marks its stop as clean although one of its directories has failed and may lack records later."""
    patches.put(BrokerDisk, "clean_epoch", property(lambda disk: max(disk._clean.values(), default=NOT_CLEAN)))


OFFLINE: Final[dict[str, int | bool]] = {
    "brokers": 3, "replication": 2, "min_insync": 2, "elr": True, "unclean": False, "resize": False, "durability": 1,
    "directories": 2, "directory_every_ms": 500, "kill_every_ms": 600, "down_ms": 300, "fault_seconds": 10,
    "produce_every_ms": 40}
"""Options of runs in which processes start while a directory is offline. Its replicas would still be in sync."""


@REPLICAS.add(0, "KIP-858, directories that are offline", **OFFLINE)
def log_is_recreated_beside_a_failed_directory(patches: Patches) -> None:
    """A replica whose log may lie in an unreadable directory gets an empty log in another one."""
    patches.put(BrokerDisk, "may_be_offline", lambda _disk, _directory: False)


@REPLICAS.add(0, "KIP-858, a directory that comes back", move_every_ms=150, **OFFLINE)
def log_of_a_directory_that_was_offline_wins(patches: Patches) -> None:
    """The log that was offline replaces the log that was created meanwhile, when a partition has both."""
    def settle(disk: BrokerDisk, name: Any, topic_id: Any, _directory: Any) -> None:
        if name in disk._duplicates:
            home, log = disk._duplicates.pop(name)
            if disk.is_of(log, topic_id):
                disk.logs[name], disk._homes[name] = log, home

    patches.put(BrokerDisk, "settle", settle)
