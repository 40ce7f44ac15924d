"""The partitions of this node. The component that follows the metadata adds and removes them; requests find them here.

One dict each finds topics by name and by id; their partitions are in a list by index. While partitions are pending
(`expect`), each look-up of a topic first has the topic's partitions created.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

cimport cython

from kraft_native.base.clock cimport monotonic_ms
from kraft_native.base.fault cimport (
    ERROR_KAFKA_STORAGE_ERROR, ERROR_NOT_LEADER_OR_FOLLOWER, ERROR_UNKNOWN_TOPIC_ID, ERROR_UNKNOWN_TOPIC_OR_PARTITION,
)
from kraft_native.base.varint cimport put_uvarint
from kraft_native.file.buffer cimport Scratch
from kraft_native.request.fields cimport UUID_BYTES, UVARINT_BYTES_MAX, put_count, put_i8, put_i32, put_string

from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    # A topic's list is as long as its largest index here; a larger index is an error, not a topic.
    PARTITION_INDEX_MAX = 1_000_000


@cython.final
cdef class Topic:
    """A topic of which this node has at least one partition."""

    cdef Partition at(self, int32_t index):
        if index < 0 or index >= len(self.partitions):
            return None
        return self.partitions[index]


@cython.final
cdef class AbsentTopic:
    """Refusals for the partitions of one topic that are not here."""

    cdef Absence at(self, int32_t index) except *:
        cdef Absence found
        cdef object known = None if self.partitions is None else self.partitions.get(index)
        found.error = self.error
        found.leader_id = found.leader_epoch = -1
        if known is not None:
            found.leader_id = known.leader
            found.leader_epoch = known.leader_epoch
            found.error = ERROR_NOT_LEADER_OR_FOLLOWER
            # Storage error until another replica leads; clients find that one by the metadata.
            if (found.leader_id < 0 or found.leader_id == self.node_id) and (self.name, index) in self.unserved:
                found.error = ERROR_KAFKA_STORAGE_ERROR
        return found


@cython.final
cdef class PartitionTable:
    """All partitions that this node serves, with the purgatory of the requests that wait for them."""

    def __init__(self, Purgatory purgatory not None):
        self.purgatory = purgatory
        self.by_name = {}
        self.by_id = {}
        self.endpoints = {}
        self.reports_endpoints = True
        self.racks = {}
        self.bring = self.absence = None
        self.refusing = {}

    def __len__(self) -> int:
        return self.partition_count

    def __iter__(self) -> Iterator[Partition]:
        cdef Topic topic
        for topic in list(self.by_name.values()):
            for partition in topic.partitions:
                if partition is not None:
                    yield partition

    cdef Topic find(self, const uint8_t* key, Py_ssize_t size, bint by_id):
        cdef Topic topic = self.latest_by_id if by_id else self.latest_by_name
        cdef bytes wanted
        if topic is not None and self.bring is None:
            wanted = topic.topic_id if by_id else topic.name
            if PyBytes_GET_SIZE(wanted) == size and memcmp(PyBytes_AS_STRING(wanted), key, <size_t>size) == 0:
                return topic
        topic = self.lookup(PyBytes_FromStringAndSize(<const char*>key, size), by_id)
        if by_id:
            self.latest_by_id = topic
        else:
            self.latest_by_name = topic
        return topic

    cdef Topic lookup(self, bytes key, bint by_id):
        if self.bring is not None:
            self.bring(key, by_id)
        return self.by_id.get(key) if by_id else self.by_name.get(key)

    def expect(self, bring: Callable[[bytes | None, bool], None] | None) -> None:
        """Announce pending partitions. Each look-up of a topic calls `bring(key, by_id)` with its name (UTF-8) or id,
        which adds its partitions; with a `key` of None, all. `bring` None: none are pending any more."""
        self.bring = bring

    def settle(self) -> bool:
        """Create some of the partitions that are on their way. True: there are more, call again in a later step."""
        if self.bring is not None:
            self.bring(None, False)
        return self.bring is not None

    def explain(self, absence: Callable[[bytes, bool], Absence]) -> None:
        """Set how the refusal for a missing partition is found.

        `absence(key, by_id)` is called once per topic and round of look-ups, with the topic's name (UTF-8) or id. It
        returns:

        - the error code of partitions that the topic does not have,
        - the topic's name,
        - its partitions by index (None: it is unknown),
        - the (topic, index) pairs with a replica here whose log failed,
        - this node's id.

        Without it the topic or the partition is unknown.
        """
        self.absence = absence
        self.latest_absent = None

    def hide(self, dict refusing not None: dict[int, int]) -> None:
        """Set the leaders that replies with a refusal do not name: a client that is sent to a dead leader loses time.

        `refusing`: node id -> time until which it is not named, on the clock of `purgatory.now_ms`. The caller keeps
        the dict and changes it.

        Without it each leader is named.
        """
        self.refusing = refusing

    cdef int32_t named(self, int32_t leader_id) except -2:
        cdef object until_ms
        if not self.refusing:
            return leader_id
        until_ms = self.refusing.get(leader_id)
        return leader_id if until_ms is None or <int64_t>until_ms <= monotonic_ms() else -1

    cdef int begin_round(self) noexcept:
        self.latest_absent = None
        return 0

    cdef AbsentTopic absent(self, bytes key, bint by_id):
        cdef AbsentTopic found = self.latest_absent
        if found is not None and found.by_id == by_id and (found.key is key or found.key == key):
            return found
        found = AbsentTopic.__new__(AbsentTopic)
        found.key = key
        found.by_id = by_id
        if self.absence is None:
            found.error = (ERROR_UNKNOWN_TOPIC_ID if by_id and key not in self.by_id
                           else ERROR_UNKNOWN_TOPIC_OR_PARTITION)
        else:
            found.error, found.name, found.partitions, found.unserved, found.node_id = self.absence(key, by_id)
        self.latest_absent = found
        return found

    def add(self, Partition partition not None) -> None:
        """Serve the partition from now on. `InvalidArgumentError`: one exists already, or the topic has another id."""
        cdef Topic topic = self.by_name.get(partition.topic_name)
        if partition.index > PARTITION_INDEX_MAX:
            raise InvalidArgumentError(f"index: {partition.index} is above {PARTITION_INDEX_MAX}")
        if partition.removed:
            raise InvalidArgumentError(f"{partition!r}: was removed from a table; make a new one")
        if topic is None:
            if partition.topic_id in self.by_id and any(partition.topic_id):
                raise InvalidArgumentError(f"topic_id: that of {partition!r} belongs to another topic")
            topic = Topic.__new__(Topic)
            topic.name = partition.topic_name
            topic.topic_id = partition.topic_id
            topic.partitions = []
        if topic.topic_id != partition.topic_id:
            raise InvalidArgumentError(f"topic_id: that of {partition!r} is not its topic's")
        if topic.at(partition.index) is not None:
            raise InvalidArgumentError(f"{partition!r}: is in the table")
        while len(topic.partitions) <= partition.index:
            topic.partitions.append(None)
        topic.partitions[partition.index] = partition
        topic.hosted += 1
        self.by_name[topic.name] = topic
        if topic.topic_id != bytes(UUID_BYTES):
            self.by_id[topic.topic_id] = topic
        self.partition_count += 1
        partition.purgatory = self.purgatory

    def remove(self, str topic_name not None, int32_t index) -> Partition:
        """Make the partition unknown, and notify the requests that wait for it. The caller closes its log, after this
        iteration of the loop."""
        cdef Topic topic = self.by_name.get(topic_name.encode())
        cdef Partition partition = None if topic is None else topic.at(index)
        if partition is None:
            raise InvalidArgumentError(f"{topic_name}-{index}: is not in the table")
        topic.partitions[index] = None
        topic.hosted -= 1
        self.partition_count -= 1
        if topic.hosted == 0:
            del self.by_name[topic.name]
            self.by_id.pop(topic.topic_id, None)
            self.latest_by_name = self.latest_by_id = None
        self.produced_bytes += partition.produced_bytes
        self.produced_records += partition.produced_records
        self.fetched_bytes += partition.fetched_bytes
        self.refused_produces += partition.refused_produces
        self.refused_fetches += partition.refused_fetches
        partition.removed = True
        partition.is_leader = False
        partition.notify_all()
        return partition

    def get(self, str topic_name not None, int32_t index) -> Partition | None:
        """The partition, None when this node does not have it."""
        cdef Topic topic = self.lookup(topic_name.encode(), False)
        return None if topic is None else topic.at(index)

    def get_by_id(self, bytes topic_id not None, int32_t index) -> Partition | None:
        """Like `get`, by topic id."""
        cdef Topic topic = self.lookup(topic_id, True)
        return None if topic is None else topic.at(index)

    cdef bytes endpoint_tags(self, set node_ids):
        cdef bytes array = self.endpoint_array(node_ids)
        cdef uint8_t* p
        cdef uint8_t head[2 + UVARINT_BYTES_MAX]
        if array == b"\1":
            return b"\0"
        p = put_uvarint(put_i8(put_i8(head, 1), 0), <uint32_t>len(array))      # one field: its tag, its size
        return PyBytes_FromStringAndSize(<const char*>head, p - head) + array

    cdef bytes endpoint_array(self, set node_ids):
        cdef list known = [node_id for node_id in sorted(node_ids) if node_id in self.endpoints]
        cdef Scratch out = Scratch()
        cdef bytes host, rack
        cdef uint8_t* p
        if not known or not self.reports_endpoints:
            return b"\1"
        out.reserve(UVARINT_BYTES_MAX)
        out.size = put_count(out.data, True, <int32_t>len(known)) - out.data
        for node_id in known:
            host, port, rack = self.endpoints[node_id]
            out.reserve(out.size + 9 + 2 * UVARINT_BYTES_MAX + len(host) + (len(rack) if rack else 0))
            p = put_i32(out.data + out.size, node_id)
            p = put_string(p, True, <const uint8_t*>PyBytes_AS_STRING(host), PyBytes_GET_SIZE(host))
            p = put_i32(p, port)
            if rack is None:
                p = put_string(p, True, NULL, -1)
            else:
                p = put_string(p, True, <const uint8_t*>PyBytes_AS_STRING(rack), PyBytes_GET_SIZE(rack))
            out.size = put_i8(p, 0) - out.data
        return bytes(out)

    def set_endpoint(self, int32_t node_id, str host not None, int32_t port, str rack=None) -> None:
        """Set the address of a node; clients that send a request to the wrong node get it (KIP-951)."""
        self.endpoints[node_id] = (host.encode(), port, None if rack is None else rack.encode())
        self.racks.clear()

    def remove_endpoint(self, int32_t node_id) -> None:
        """Forget the address of a removed node."""
        self.endpoints.pop(node_id, None)
        self.racks.clear()

    cdef bytes nodes_in(self, bytes rack):
        cdef bytes found = self.racks.get(rack)
        cdef int32_t node_id
        if found is None:
            found = b""
            for node_id, (_, _, place) in self.endpoints.items():
                if place == rack:
                    found += PyBytes_FromStringAndSize(<const char*>&node_id, sizeof(int32_t))
            if found:
                self.racks[rack] = found
        return found
