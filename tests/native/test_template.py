"""Bytes in which some numbers change."""

import pytest

from kraft_native.errors import InvalidArgumentError
from kraft_native.template import Template

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
