"""Topic and broker settings become those of a log: every value, allowed or not."""

import pytest

from kraft.broker.log_settings import ENGINE_SETTINGS, log_settings
from kraft.config import tables
from kraft.config.effective import BrokerLayers, Source, broker_faults
from kraft.config.setting import INTEGER_RANGES, Setting
from kraft_native.segment.config import LogConfig

NOTHING = BrokerLayers()
HOSTILE = ("", " ", "x", "1_0", "1e3", "NaN", "-3", "2147483648", "9223372036854775808", "9" * 6000, "a,,b", "\x00",
           "\u0663", "delete,burn")


def bounds(setting: Setting) -> list[str]:
    """The smallest and the largest number that the table allows."""
    candidates = sorted({-2, -1, 0, 1, 4, 1 << 20, 9, 17, 22, -131_072, *INTEGER_RANGES[setting.type]})
    allowed = [each for each in candidates if setting.allows(each)]
    return [str(allowed[0]), str(allowed[-1])]


@pytest.mark.parametrize("name", ENGINE_SETTINGS)
def test_the_engine_takes_what_the_tables_allow(name: str) -> None:
    """This holds in every place from which a log gets its settings."""
    setting = tables.section("topic")[name]
    if setting.type not in INTEGER_RANGES:
        return
    for text in bounds(setting):
        assert getattr(LogConfig.from_kafka({name: text} if name != "min.compaction.lag.ms" else {name: "0"}),
                       name.replace(".", "_")) is not None
        found = log_settings({name: text}, NOTHING)
        assert (getattr(found.config, name.replace(".", "_")), found.faults) == (int(text), ())
        for synonym, factor in setting.synonyms:
            if factor == 1:
                at_default = log_settings({}, BrokerLayers(dynamic_default={synonym: text}))
                assert at_default.unusable == ()


@pytest.mark.parametrize("text", HOSTILE)
def test_no_value_anywhere_stops_a_log(text: str) -> None:
    names = list(tables.section("topic"))
    for name in names:
        log_settings({name: text}, NOTHING)
    everywhere = {**dict.fromkeys(names, text), **dict.fromkeys(tables.broker_settings(), text)}
    for layers in (BrokerLayers(dynamic=everywhere), BrokerLayers(dynamic_default=everywhere)):
        log_settings({}, layers)
        log_settings(dict.fromkeys(names, text), layers, replicated=True)
        broker_faults(layers)


@pytest.mark.parametrize(("topic", "defaults"), [
    ({"min.compaction.lag.ms": "1000"}, {"log.cleaner.max.compaction.lag.ms": "1"}),
    ({"max.compaction.lag.ms": "1"}, {"log.cleaner.min.compaction.lag.ms": "1000"}),
    ({}, {"log.cleaner.min.compaction.lag.ms": "1000", "log.cleaner.max.compaction.lag.ms": "1"}),
    ({"min.compaction.lag.ms": "1000", "max.compaction.lag.ms": "1"}, {}),
])
def test_the_shortest_lag_wins_over_the_longest(topic: dict[str, str], defaults: dict[str, str]) -> None:
    for layers in (BrokerLayers(dynamic_default=defaults), BrokerLayers(dynamic=defaults)):
        found = log_settings(topic, layers)
        assert (found.config.min_compaction_lag_ms, found.config.max_compaction_lag_ms) == (1000, 1000)
        assert found.faults == ()


def test_a_log_keeps_what_it_had_where_a_value_cannot_be_used() -> None:
    before = log_settings({"retention.ms": "99", "segment.ms": "7", "cleanup.policy": "compact"}, NOTHING).config
    found = log_settings({"retention.ms": "soon", "segment.ms": "8", "cleanup.policy": "burn"}, NOTHING)
    after = found.over(before)
    assert (after.retention_ms, after.segment_ms, after.cleanup_policy) == (99, 8, "compact")
    assert [(fault.source, fault.reason.partition(":")[0]) for fault in found.faults] == [
        (Source.TOPIC, "cleanup.policy"), (Source.TOPIC, "retention.ms")]
    assert str(found.faults[1]) == "retention.ms: 'soon' is not a whole number (long) (set for the topic)"


def test_kept_lags_do_not_contradict_new_ones() -> None:
    before = log_settings({"min.compaction.lag.ms": "50"}, NOTHING).config
    after = log_settings({"min.compaction.lag.ms": "x", "max.compaction.lag.ms": "5"}, NOTHING).over(before)
    assert (after.min_compaction_lag_ms, after.max_compaction_lag_ms) == (50, 50)


@pytest.mark.parametrize("name", ["retention.ms", "retention.bytes", "cleanup.policy"])
def test_a_log_that_opens_with_an_unusable_retention_lets_nothing_go(name: str) -> None:
    """The default could delete what the value keeps when it is read correctly."""
    layers = BrokerLayers(static={"log.retention.ms": "5", "log.retention.bytes": "5"})
    found = log_settings({name: "x,y"}, layers).config
    expected = (-1, -1) if name == "cleanup.policy" else (-1, 5) if name == "retention.ms" else (5, -1)
    assert (found.retention_ms, found.retention_bytes) == expected


@pytest.mark.parametrize(("name", "text", "value"), [
    ("log.retention.ms", "-5", -1), ("log.retention.hours", "-3", -1), ("log.retention.minutes", "2", 120_000)])
def test_any_negative_retention_of_a_broker_is_no_limit(name: str, text: str, value: int) -> None:
    found = log_settings({}, BrokerLayers(dynamic_default={name: text}))
    assert (found.config.retention_ms, found.unusable) == (value, ())


@pytest.mark.parametrize(("internal", "bytes_max"), [("0", 14), ("-5", 14), ("2147483647", 2147483647)])
def test_any_internal_segment_size_can_be_used(internal: str, bytes_max: int) -> None:
    assert log_settings({"internal.segment.bytes": internal}, NOTHING).config.segment_bytes == bytes_max
