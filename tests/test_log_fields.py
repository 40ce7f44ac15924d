"""The fields of a log's settings are those of the table, and a new setting becomes a field."""

from tools import log_fields
from tools.log_fields import Field, fields

TABLE = {
    "topic": [{"name": "a.ratio", "type": "double", "default": 0.5, "range": "[0,...,1]"},
              {"name": "a.list", "type": "list", "default": ["x"], "range": "[x, y]"},
              {"name": "a.word", "type": "string", "default": "x", "range": "[x, y]"},
              {"name": "not.used", "type": "int", "default": 1}],
    "broker": [{"name": "a.number", "type": "int", "default": 1}],
    "engine": [{"name": "own_word", "default": "on", "allowed": ["on", "off"]},
               *({"name": name} for name in ("a.number", "a.word", "a.list", "a.ratio"))],
}


def test_generated_files_are_current() -> None:
    assert not log_fields.outdated(log_fields.generated()), "run: python -m tools.log_fields"


def test_fields_follow_the_table() -> None:
    assert fields(TABLE) == [
        Field("own_word", "str", "str", ("on", "off")), Field("a_number", "int64_t", "int"),
        Field("a_word", "str", "str", ("x", "y")), Field("a_list", "str", "str", ("x", "y", "x,y", "y,x")),
        Field("a_ratio", "double", "float")]
    header, types = log_fields.header_text(fields(TABLE)), log_fields.types_text(fields(TABLE))
    assert "    cdef readonly double a_ratio\n" in header
    assert '    own_word: Literal["on", "off"]\n' in types and "    a_number: int\n" in types
