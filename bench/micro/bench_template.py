"""Writing and reading a message in which only some numbers change."""

from kraft_native.replica.template import Template

BLANK = bytes(120)
PLACES = [(4, 4), (40, 4), (48, 8), (60, 8)]


def test_write(benchmark):
    assert len(benchmark(Template(BLANK, PLACES).write, 1, 2, 1 << 40, 4)) == len(BLANK)


def test_read(benchmark):
    template = Template(BLANK, PLACES)
    assert benchmark(template.read, template.write(1, 2, 1 << 40, 4)) == (1, 2, 1 << 40, 4)
