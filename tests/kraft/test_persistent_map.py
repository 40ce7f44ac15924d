"""The persistent map, compared with a dict."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kraft.persistent_map import REMOVED, PersistentMap

KEYS = st.integers(0, 40) | st.integers(-3, 3).map(lambda each: each << 60) | st.integers(0, 1 << 70)
CHANGES = st.lists(st.dictionaries(KEYS, st.integers(0, 3) | st.just(REMOVED), max_size=60), max_size=8)


@given(CHANGES)
def test_every_version_is_as_a_dict(changes):
    found, expected = PersistentMap(), {}
    versions = []
    for each in changes:
        found = found.changed(each)
        for key, value in each.items():
            if value is REMOVED:
                expected.pop(key, None)
            else:
                expected[key] = value
        versions.append((found, dict(expected)))
    for version, content in versions:
        assert version == content
        assert len(version) == len(content)
        assert sorted(version) == sorted(content)
        assert all(key in version and version[key] == version.get(key) == value for key, value in content.items())
        assert version.get(1 << 80) is None
        assert version.get(1 << 80, 7) == 7
        assert 1 << 80 not in version


class Same:
    """Key whose hash every other one has."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return 5


def test_keys_with_one_hash():
    keys = [Same(number) for number in range(100)]
    found = PersistentMap().changed({key: key.number for key in keys})
    assert [found[key] for key in keys] == list(range(100))
    assert len(found.changed(dict.fromkeys(keys, REMOVED))) == 0


def test_a_change_shares_the_rest():
    keys = [UUID(int=number * 7919) for number in range(10_000)]
    found = PersistentMap().changed(dict.fromkeys(keys, 0))
    changed = found.changed({keys[0]: 1})
    assert sum(one is not other for one, other in zip(found._root, changed._root, strict=True)) == 1
    assert (found[keys[0]], changed[keys[0]]) == (0, 1)


def test_a_map_that_became_empty_holds_no_tree():
    found = PersistentMap().changed(dict.fromkeys(range(10_000), 0))
    assert found.changed(dict.fromkeys(range(10_000), REMOVED))._root == {}
