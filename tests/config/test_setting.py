"""Types, ranges and texts of single settings."""

import pytest

from kraft.config import tables
from kraft.config.errors import InvalidConfigError
from kraft.protocol.error_codes import ErrorCode


def topic(name):
    return tables.section("topic")[name]


@pytest.mark.parametrize(("name", "text", "value"), [
    ("retention.ms", "-1", -1),
    ("retention.ms", " 60000 ", 60000),
    ("retention.ms", "\t+5\x00", 5),
    ("min.cleanable.dirty.ratio", "1e-1", 0.1),
    ("compression.gzip.level", "-1", -1),
    ("compression.gzip.level", "9", 9),
    ("cleanup.policy", "compact,delete", ["compact", "delete"]),
    ("cleanup.policy", "compact, delete", ["compact", "delete"]),
    ("cleanup.policy", "", []),
    ("preallocate", "TRUE", True),
    ("min.cleanable.dirty.ratio", "1", 1.0),
    ("leader.replication.throttled.replicas", "*", ["*"]),
    ("leader.replication.throttled.replicas", "0:1,1:2", ["0:1", "1:2"]),
])
def test_text_becomes_value(name, text, value):
    assert topic(name).parse(text) == value


@pytest.mark.parametrize(("name", "text", "says"), [
    ("retention.ms", "-2", "[-1,...]"),
    ("retention.ms", "soon", "whole number"),
    ("retention.ms", "9223372036854775808", "long"),
    ("max.message.bytes", "2147483648", "int"),
    ("compression.gzip.level", "0", "[1,...,9] or -1"),
    ("compression.lz4.level", "18", "[1,...,17]"),
    ("cleanup.policy", "shrink", "compact, delete"),
    ("cleanup.policy", "delete,delete", "twice"),
    ("compression.type", "LZ4", "uncompressed, zstd, lz4"),
    ("preallocate", "yes", "true or false"),
    ("min.cleanable.dirty.ratio", "1.5", "[0,...,1]"),
    ("min.cleanable.dirty.ratio", "nan", "finite"),
    ("leader.replication.throttled.replicas", "*,0:1", "partition:broker"),
    ("segment.bytes", "1", "1048576"),
    ("retention.ms", "1_0", "whole number"),
    ("retention.ms", "\u0661", "whole number"),
    ("retention.ms", "\u00a05", "whole number"),
    ("retention.ms", "0x10", "whole number"),
    ("retention.ms", "9" * 5000, "(5002 characters)"),
    ("min.cleanable.dirty.ratio", "0_1", "not a number"),
    ("min.cleanable.dirty.ratio", "\u0661", "not a number"),
    ("leader.replication.throttled.replicas", "\u0661:1", "partition:broker"),
])
def test_a_refusal_names_setting_value_and_range(name, text, says):
    with pytest.raises(InvalidConfigError) as refused:
        topic(name).parse(text)
    message = str(refused.value)
    assert message.startswith(f"{name}: ")
    assert says in message
    assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_a_secret_is_not_repeated():
    password = tables.section("broker")["ssl.key.password"]
    assert password.sensitive
    assert "hidden" in str(password.refuse("secret", "is wrong"))
    assert "secret" not in str(password.refuse("secret", "is wrong"))


@pytest.mark.parametrize(("value", "text"), [
    (None, None), (True, "true"), (-1, "-1"), (0.5, "0.5"), (1.7976931348623157e308, "1.7976931348623157E308"),
    (2147483647.0, "2.147483647E9"), (0.0001, "1.0E-4"), ([], ""), (["a", "b"], "a,b"),
])
def test_values_are_written_as_kafka_writes_them(value, text):
    assert topic("retention.ms").format(value) == text


@pytest.mark.parametrize("duration", ["latest", "earliest", "by_duration:PT1H30M", "by_duration:P2DT3.5S"])
def test_share_groups_start_at_the_configured_position(duration):
    assert tables.section("group")["share.auto.offset.reset"].parse(duration) == duration


@pytest.mark.parametrize("duration", ["by_duration:P", "by_duration:PT", "by_duration:1h", "newest"])
def test_a_duration_that_is_none_is_refused(duration):
    with pytest.raises(InvalidConfigError):
        tables.section("group")["share.auto.offset.reset"].parse(duration)
