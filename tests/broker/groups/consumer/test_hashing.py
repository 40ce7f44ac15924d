"""Hash of a group's topics: the one that Kafka wrote, and what changes it."""

import base64
from uuid import UUID

from kraft.broker.groups.consumer.hashing import group_hash, topic_hash

# Topics of a group in the golden `__consumer_offsets`: id and partitions, and the hash in the group's record.
TOPICS = {"headers": ("GwwGB-_eTRaWzcXb0cAx4Q", 1), "multi": ("ZMOzxY0pT32meZM61__eig", 3),
          "plain": ("vLMp6VD8QuaC77xwyk9DjQ", 1)}
HASH = -2602355208031594291


def test_the_hash_is_kafkas() -> None:
    hashes = [topic_hash(UUID(bytes=base64.urlsafe_b64decode(f"{topic_id}==")), name, [()] * count)
              for name, (topic_id, count) in TOPICS.items()]
    assert group_hash(hashes) == HASH
    assert group_hash([]) == 0


def test_everything_about_a_topic_counts() -> None:
    topic_id = UUID(int=7)
    hashes = [topic_hash(topic_id, "t", racks) for racks in ([], [()], [(), ()], [("a",)], [("a", "b")], [("ab",)],
                                                             [("a",), ("b",)], [("b",), ("a",)])]
    hashes += [topic_hash(UUID(int=8), "t", []), topic_hash(topic_id, "u", [])]
    assert len(dict.fromkeys(hashes)) == len(hashes)
