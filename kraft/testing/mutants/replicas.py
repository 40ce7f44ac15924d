"""Bugs in replicas, fetchers and logs of partitions. Most are bugs of the compiled code, which a build in place has.
The others are patches of Python code around it, or of the frames between brokers."""

from typing import Any, Final

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.headers import decode_request, decode_response_header, encode_request_header, encode_response_header
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.runtime.storage.log_manager import LogManager
from kraft.testing.brokers import fetcher, frames
from kraft.testing.brokers.broker import Broker
from kraft.testing.brokers.ends import FetcherEnd, ServerEnd
from kraft.testing.brokers.fetcher import Fetcher
from kraft.testing.brokers.frames import FETCH, FETCH_VERSION, SIZE_BYTES
from kraft.testing.brokers.messages import Fetched
from kraft.testing.mutants.patches import Collection, Patches

REPLICAS = Collection()

RECORDS_THAT_DO_NOT_FIT = 3
LATE_MS = 30


def _sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(SIZE_BYTES, "big") + frame


@REPLICAS.compiled(28, "KAFKA-14704")
def high_watermark_before_truncation() -> None:
    """A follower raises its high watermark before it truncates diverging records."""


@REPLICAS.compiled(29, "KAFKA-13091")
def high_watermark_stays_after_isr_shrink() -> None:
    """The high watermark does not move when the ISR shrinks, until the next fetch or append."""


@REPLICAS.compiled(34, "KAFKA-13207")
def truncated_by_a_fetcher_of_before() -> None:
    """A fetcher handles an answer for a partition that another fetcher follows by now."""


@REPLICAS.compiled(34, "KAFKA-13141")
def diverging_fetch_counts() -> None:
    """A leader accepts the offset of a Fetch although the log before it diverges."""


@REPLICAS.add(35, "KAFKA-15510")
def empty_fetch_forgets_the_last_epoch(patches: Patches) -> None:
    """A follower forgets its last epoch after an answer without records, and does not send it."""
    forgot: dict[tuple[int, Any, int], bool] = {}

    def answered(original: Any) -> Any:
        def receive(end: FetcherEnd, answer: object) -> None:
            if isinstance(answer, bytes):
                _header, body = decode_response_header(answer[SIZE_BYTES:], FETCH, FETCH_VERSION)
                for topic in FetchResponse.decode(body, FETCH_VERSION).responses:
                    for part in topic.partitions:
                        key = end.owner_id, topic.topic_id, part.partition_index
                        forgot[key] = part.error_code == ErrorCode.NONE and not part.records
            original(end, answer)

        return receive

    def write(original: Any) -> Any:
        def send(end: FetcherEnd, frame: bytes) -> None:
            found = decode_request(frame[SIZE_BYTES:])
            request = FetchRequest.decode(found.body, FETCH_VERSION)
            for topic in request.topics:
                for part in topic.partitions:
                    if forgot.get((end.owner_id, topic.topic_id, part.partition)):
                        part.last_fetched_epoch = -1
            header = encode_request_header(FETCH, FETCH_VERSION, found.header.correlation_id, found.header.client_id)
            original(end, _sized(header + request.encode(FETCH_VERSION)))

        return send

    patches.wrap(FetcherEnd, "_answered", answered)
    patches.wrap(FetcherEnd, "write", write)


@REPLICAS.compiled(36, "KAFKA-12996")
def diverging_below_the_log_start() -> None:
    """A follower whose offset was deleted at the leader receives the point of divergence. It should restart its log."""


@REPLICAS.compiled(37, "KAFKA-10706")
def epochs_stay_after_truncation() -> None:
    """The epoch cache keeps epochs whose records were truncated, even when others replace them."""


@REPLICAS.compiled(37, "KAFKA-10432")
def epoch_zero_is_none() -> None:
    """Epoch 0 is treated as no epoch."""


@REPLICAS.compiled(38, "KAFKA-9491")
def high_watermark_stays_after_full_truncation() -> None:
    """A restarted log keeps its high watermark."""


# Followers learn late from the controller and are far behind, while leaderships move around all the time.
@REPLICAS.add(39, "KAFKA-9838", brokers=3, voters=1, observers=3, combined=False, replication=3, min_insync=1, window=5,
              shuffle_every_ms=100, swap_ms=40, hold_ms=500, reset_every_ms=100, unclean=True, fetch_batches=1,
              produce_every_ms=40, lag_ms=150, fault_seconds=10, delay_ms=1, jitter_ms=1, drop_per_mille=0,
              late_per_mille=0, flush_us=100, slow_flush_per_mille=0, isolate_every_ms=0, part_every_ms=0,
              cut_every_ms=0, kill_every_ms=0, power_every_ms=0, blackout_every_ms=0, pause_every_ms=0,
              shutdown_every_ms=0, topic_every_ms=0, move_every_ms=0, elect_every_ms=0, resign_every_ms=0)
def read_races_with_truncation(patches: Patches) -> None:
    """An answer has records that were read before a truncation, and the high watermark of after it."""
    brokers: dict[ServerEnd, Broker] = {}

    def end_of(original: Any) -> Any:
        def known(broker: Broker, connection: Any) -> ServerEnd:
            end: ServerEnd = original(broker, connection)
            brokers[end] = broker
            return end

        return known

    def answer(original: Any) -> Any:
        def later(end: ServerEnd, frame: bytes) -> None:
            broker = brokers[end]
            if end.is_to_follower:
                broker.later(LATE_MS, lambda: original(end, _marked(broker, frame)))
            else:
                original(end, frame)

        return later

    patches.wrap(Broker, "_end_of", end_of)
    patches.wrap(ServerEnd, "_answer", answer)


def _marked(broker: Broker, frame: bytes) -> bytes:
    """Return the answer to a Fetch with the current high watermarks."""
    header, body = decode_response_header(frame[SIZE_BYTES:], FETCH, FETCH_VERSION)
    response = FetchResponse.decode(body, FETCH_VERSION)
    for topic in response.responses:
        for part in topic.partitions:
            partition = broker.table.get_by_id(topic.topic_id.bytes, part.partition_index)
            if partition is not None and not part.error_code and part.diverging_epoch.epoch < 0:
                part.high_watermark = partition.high_watermark
    return _sized(encode_response_header(FETCH, FETCH_VERSION, header.correlation_id) + response.encode(FETCH_VERSION))


@REPLICAS.compiled(40, "KIP-101")
def truncates_to_the_high_watermark() -> None:
    """A follower truncates its log to its high watermark, without a query about epochs."""


# A leadership leaves and returns before any replica is removed from the ISR.
@REPLICAS.compiled(40, "KIP-320", brokers=3, voters=3, observers=0, combined=True, replication=3, min_insync=2,
                   window=5, shuffle_every_ms=300, produce_every_ms=40, lag_ms=1000, swap_ms=40, fault_seconds=10,
                   isolate_every_ms=0, part_every_ms=0, cut_every_ms=0, kill_every_ms=0, power_every_ms=0,
                   blackout_every_ms=0, pause_every_ms=0, shutdown_every_ms=0, topic_every_ms=0, move_every_ms=0,
                   elect_every_ms=0, resign_every_ms=0)
def fetch_of_an_earlier_epoch_counts() -> None:
    """A leader answers a Fetch of an earlier leader epoch, and accepts its offset."""


# A leadership moves on while a replica that is not in sync is a little behind the next leader.
@REPLICAS.compiled(0, "KAFKA-7128", brokers=3, voters=1, observers=3, combined=False, replication=3, min_insync=1,
                   window=5, shuffle_every_ms=100, swap_ms=40, hold_ms=500, unclean=False, fetch_batches=1,
                   produce_every_ms=40, lag_ms=150, fault_seconds=10, delay_ms=1, jitter_ms=1, drop_per_mille=0,
                   late_per_mille=0, isolate_every_ms=0, part_every_ms=0, cut_every_ms=0, kill_every_ms=0,
                   power_every_ms=0, blackout_every_ms=0, pause_every_ms=0, shutdown_every_ms=0, topic_every_ms=0,
                   move_every_ms=0, elect_every_ms=0, resign_every_ms=0)
def follower_joins_below_the_epoch_start() -> None:
    """A follower that has everything below the high watermark joins the ISR, although it lacks records that the leader
    had when its epoch began. The leader before may have committed them."""


@REPLICAS.add(42, "KAFKA-14616")
def stray_data_of_a_topic_of_before(patches: Patches) -> None:
    """A log is found by the topic's name, whatever its id. The files are deleted late, after the topic was created
    again."""
    patches.put(LogManager, "_belongs", lambda _logs, _directory, _name, _topic_id: True)
    patches.put(LogManager, "remove", lambda _logs, _topic, _index, **_delay: None)


@REPLICAS.compiled(43, "KAFKA-10371")
def removed_partition_crashes_the_fetcher() -> None:
    """A fetcher that gets an answer for a removed partition ends, and is never restarted."""


@REPLICAS.add(44, "KAFKA-17190")
def deleted_topic_is_fetched_repeatedly(patches: Patches) -> None:
    """A fetcher does not check before a retry whether the partition is still followed."""
    def around(original: Any) -> Any:
        def failed(self: Any, partition: Any, code: int, cause: Any) -> None:
            original(self, partition, code, cause)
            if code == ErrorCode.UNKNOWN_TOPIC_ID and partition.removed:
                self._broker.later(fetcher.PAUSE_MS, again, self, partition)

        return failed

    def again(self: Any, partition: Any) -> None:
        self._failed(partition, ErrorCode.UNKNOWN_TOPIC_ID, None)

    def take(original: Any) -> Any:
        def unfollow(self: Any, key: Any) -> None:
            partition = self.followed.get(key)
            original(self, key)
            if partition is not None and key[0] not in self._broker.image.topics:
                self._broker.later(fetcher.PAUSE_MS, again, self, partition)

        return unfollow

    patches.wrap(Fetcher, "_failed", around)
    patches.wrap(Fetcher, "unfollow", take)


@REPLICAS.compiled(0, "Fetch: the high watermark")
def consumers_see_the_log_end() -> None:
    """A consumer also receives records that are not committed."""


@REPLICAS.compiled(0, "Fetch: the high watermark is exclusive")
def last_committed_batch_is_held_back() -> None:
    """A consumer receives a batch only when something after it is committed."""


@REPLICAS.compiled(0, "Fetch: an offset inside a batch")
def batch_that_holds_the_offset_is_left_out() -> None:
    """A Fetch of an offset inside a batch begins with the next one."""


@REPLICAS.compiled(0, "Fetch: a sparse index")
def read_begins_at_the_index_entry() -> None:
    """A Fetch begins at the position in the index, some batches before the offset, and not at the offset."""


@REPLICAS.add(0, "Fetch: the byte limit of an answer", fetch_batches=20)
def batch_that_does_not_fit_is_passed_over(patches: Patches) -> None:
    """A consumer's answer continues with a smaller batch when one does not fit into the remaining space."""
    def around(original: Any) -> Any:
        def fetched(frame: bytes) -> Fetched:
            answer: Fetched = original(frame)
            return Fetched(tuple(part._replace(batches=tuple(
                batch for number, batch in enumerate(part.batches)
                if number == 0 or batch.end_offset - batch.base_offset < RECORDS_THAT_DO_NOT_FIT))
                for part in answer.parts))

        return fetched

    patches.wrap(frames, "_fetched", around)


@REPLICAS.compiled(54, "idempotence: retry after a leader change")
def followers_do_not_know_producers() -> None:
    """A follower keeps no producer state, so as a leader it accepts duplicates as new batches."""


@REPLICAS.compiled(54, "idempotence: state after truncation")
def producers_survive_truncation() -> None:
    """Truncated batches are still recognised as duplicates, so they are acknowledged and not written again."""


@REPLICAS.compiled(54, "idempotence: sequence gap")
def gaps_are_accepted() -> None:
    """A batch is appended although the previous one is missing."""


@REPLICAS.compiled(54, "idempotence: epoch bump")
def sequences_survive_an_epoch_bump() -> None:
    """A batch of a new producer epoch is compared with the sequences of the previous epoch."""


@REPLICAS.compiled(54, "idempotence: fenced epoch")
def fenced_producer_epoch_is_accepted() -> None:
    """A late batch of an earlier producer epoch is stored."""


@REPLICAS.add(0, "KIP-966, clean stops", brokers=3, voters=1, observers=3, combined=False, replication=3, min_insync=3,
              elr=True, unclean=False, durability=0, directories=2, directory_every_ms=500, down_ms=300,
              fault_seconds=10, produce_every_ms=40, kill_every_ms=0, power_every_ms=0, blackout_every_ms=0,
              pause_every_ms=0, isolate_every_ms=0, part_every_ms=0, cut_every_ms=0, shuffle_every_ms=0,
              reboot_every_ms=0)
def stop_beside_a_failed_directory_is_clean(patches: Patches) -> None:
    """A broker marks its stop as clean although one of its directories has failed and may lack records later."""
    patches.put(LogManager, "previous_epoch", property(lambda logs: max(
        (each.previous_broker_epoch for each in logs.directories if each.was_clean), default=-1)))


OFFLINE: Final[dict[str, int | bool]] = {
    "brokers": 3, "replication": 2, "min_insync": 2, "elr": True, "unclean": False, "resize": False, "durability": 1,
    "directories": 2, "directory_every_ms": 500, "kill_every_ms": 600, "down_ms": 300, "fault_seconds": 10,
    "produce_every_ms": 40}
"""Options of runs in which processes start while a directory is offline. Its replicas would still be in sync."""


@REPLICAS.add(0, "KIP-858, directories that are offline", **OFFLINE)
def log_is_recreated_beside_a_failed_directory(patches: Patches) -> None:
    """A replica whose log may lie in an unreadable directory gets an empty log in another one."""
    patches.put(LogManager, "may_be_offline", lambda _logs, _directory: False)


@REPLICAS.add(0, "KIP-858, a directory that comes back", move_every_ms=150, **OFFLINE)
def log_of_a_directory_that_was_offline_wins(patches: Patches) -> None:
    """The log that was offline replaces the log that was created meanwhile, when a partition has both."""
    def around(original: Any) -> Any:
        def settle(logs: Any, name: Any, topic_id: Any, directory: Any) -> None:
            others = (each.directory_id for each in logs._duplicates.get(name, ())
                      if each.directory_id != directory and each.topic_id(*name) == topic_id)
            original(logs, name, topic_id, next(others, directory))

        return settle

    patches.wrap(LogManager, "settle", around)
