"""Templates: bytes in which some numbers change."""

import pytest

from kraft_native.base.errors import InvalidArgumentError
from kraft_native.replica.template import Template

BLANK = b"abc....def........g"
PLACES = [(3, 4), (10, 8)]


def test_written_and_read():
    template = Template(BLANK, PLACES)
    assert len(template) == len(BLANK)
    made = template.write(-2, 1 << 40)
    assert made == b"abc" + (-2).to_bytes(4, "big", signed=True) + b"def" + (1 << 40).to_bytes(8, "big") + b"g"
    assert template.read(made) == (-2, 1 << 40)
    assert template.read(memoryview(made + b"more")) == (-2, 1 << 40)
    assert template.read(made[:-1]) is None


@pytest.mark.parametrize("at", [at for at, byte in enumerate(BLANK) if byte != ord(".")])
def test_anything_else_that_differs_is_found(at):
    made = bytearray(Template(BLANK, PLACES).write(7, 8))
    made[at] ^= 1
    assert Template(BLANK, PLACES).read(made) is None


def test_numbers_beside_each_other_and_at_the_ends():
    template = Template(bytes(16), [(0, 4), (4, 4), (8, 8)])
    assert template.read(template.write(1, -2, 3)) == (1, -2, 3)
    fixed = Template(b"fixed", [])
    assert (fixed.write(), fixed.read(b"fixed"), fixed.read(b"fixer")) == (b"fixed", (), None)


@pytest.mark.parametrize("places", [[(0, 3)], [(-1, 4)], [(16, 4)], [(4, 4), (0, 4)], [(0, 8), (4, 8)], [(0, 4)] * 9])
def test_places_that_cannot_be(places):
    with pytest.raises(InvalidArgumentError, match="places"):
        Template(BLANK, places)


def test_numbers_that_do_not_fit():
    template = Template(BLANK, PLACES)
    with pytest.raises(InvalidArgumentError, match="1 numbers for 2 places"):
        template.write(1)
    with pytest.raises(OverflowError):
        template.write(1 << 31, 0)


def test_bytes_behind_the_numbers():
    template = Template(BLANK, PLACES)
    numbers = template.write(-2, 5)
    for content, size_and_one in ((b"", b"\x01"), (b"abc", b"\x04"), (bytes(300), b"\xad\x02")):
        made = numbers + size_and_one + content + b"tail"
        start = len(numbers) + len(size_and_one)
        assert template.read_bytes(made, b"tail") == ((-2, 5), start, start + len(content))
        assert template.read_bytes(memoryview(made), b"tail") == ((-2, 5), start, start + len(content))
        for wrong in (made[:-1], made + b"!", made[:-1] + b"!", b"!" + made[1:], made[:start - 1], numbers[:-1]):
            assert template.read_bytes(wrong, b"tail") is None


@pytest.mark.parametrize("size_and_one", [b"\x00", b"\x80", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\x01"])
def test_bytes_whose_size_cannot_be(size_and_one):
    template = Template(BLANK, PLACES)
    assert template.read_bytes(template.write(-2, 5) + size_and_one + b"tail", b"tail") is None
