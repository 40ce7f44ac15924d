"""Effective values of settings, checked against the answers of a Kafka broker."""

import json

import pytest

from kraft.config import tables
from kraft.config.effective import BrokerLayers, Source, broker_value, client_metrics_value, group_value, topic_value
from kraft.config.errors import InvalidConfigError
from tests.golden import golden, needs_golden

LAYERS = BrokerLayers(
    dynamic_default={"message.max.bytes": "1048000", "min.insync.replicas": "2"},
    static={"log.index.size.max.bytes": "8192", "min.insync.replicas": "2"},
)
OVERRIDES = {"cleanup.policy": "delete", "max.message.bytes": "500000"}


@needs_golden
def test_topic_settings_are_reported_as_in_kafka():
    checked = 0
    for line in golden("wire", "DescribeConfigs.jsonl").read_text().splitlines():
        frame = json.loads(line)
        if frame["library"] != "own-raw-client" or frame["version"] != 4:
            continue
        for config in frame["response"]["results"][0]["configs"]:
            ours = topic_value(config["name"], OVERRIDES, LAYERS)
            assert ours.setting.format(ours.value) == config["value"]
            assert ours.source == config["configSource"]
            assert [synonym._asdict() for synonym in ours.synonyms] == [
                {"name": each["name"], "text": each["value"], "source": each["source"]} for each in config["synonyms"]]
            checked += 1
    assert checked == 33


@pytest.mark.parametrize(("layer", "expected"), [
    ({}, (604_800_000, Source.DEFAULT)),
    ({"log.retention.hours": "1"}, (3_600_000, Source.STATIC_BROKER)),
    ({"log.retention.hours": "1", "log.retention.minutes": "2"}, (120_000, Source.STATIC_BROKER)),
    ({"log.retention.hours": "1", "log.retention.ms": "5"}, (5, Source.STATIC_BROKER)),
    ({"log.retention.hours": "-1"}, (-1, Source.STATIC_BROKER)),
])
def test_the_finest_unit_that_is_set_counts(layer, expected):
    found = topic_value("retention.ms", {}, BrokerLayers(static=layer))
    assert (found.value, found.source) == expected


def test_layers_count_in_kafkas_order():
    name = "log.cleaner.threads"
    layers = BrokerLayers({name: "4"}, {name: "3"}, {name: "2"})
    found = broker_value(name, layers)
    assert found.value == 4
    assert [(synonym.text, synonym.source) for synonym in found.synonyms] == [
        ("4", Source.DYNAMIC_BROKER), ("3", Source.DYNAMIC_DEFAULT_BROKER), ("2", Source.STATIC_BROKER),
        ("1", Source.DEFAULT)]


def test_the_other_units_of_a_set_name_are_reported_with_their_defaults():
    found = topic_value("retention.ms", {}, BrokerLayers(dynamic_default={"log.retention.ms": "5"}))
    assert [(synonym.name, synonym.text) for synonym in found.synonyms] == [
        ("log.retention.ms", "5"), ("log.retention.hours", "168")]
    assert topic_value("retention.ms", {"retention.ms": "5"}, BrokerLayers()).synonyms[1:] == ()


def test_a_group_falls_back_to_the_brokers_setting():
    layers = BrokerLayers(static={"group.consumer.session.timeout.ms": "50000"})
    assert group_value("consumer.session.timeout.ms", {}, layers).value == 50_000
    own = group_value("consumer.session.timeout.ms", {"consumer.session.timeout.ms": "46000"}, layers)
    assert (own.value, own.source) == (46_000, Source.GROUP)


def test_a_group_setting_without_a_broker_setting_has_its_own_default():
    found = group_value("share.isolation.level", {"share.isolation.level": "read_committed"}, BrokerLayers())
    assert [(synonym.text, synonym.source) for synonym in found.synonyms] == [
        ("read_committed", Source.GROUP), ("read_uncommitted", Source.DEFAULT)]


def test_a_client_metrics_subscription_has_no_broker_behind_it():
    found = client_metrics_value("interval.ms", {"interval.ms": "1000"})
    assert (found.value, found.source) == (1000, Source.CLIENT_METRICS)


def test_a_value_that_cannot_be_used_gives_way_to_the_next_one():
    layers = BrokerLayers({"log.retention.ms": "0"}, {"log.retention.ms": "x", "log.retention.minutes": "2"},
                          {"log.retention.hours": "1"})
    found = topic_value("retention.ms", {"retention.ms": "-2"}, layers)
    assert (found.value, found.source) == (120_000, Source.DYNAMIC_DEFAULT_BROKER)
    assert [(fault.source, fault.reason) for fault in found.faults] == [
        (Source.TOPIC, "retention.ms: -2 is not in [-1,...]"),
        (Source.DYNAMIC_BROKER, "log.retention.ms: 0 is not allowed"),
        (Source.DYNAMIC_DEFAULT_BROKER, "log.retention.ms: 'x' is not a whole number (long)")]
    assert broker_value("log.cleaner.threads", BrokerLayers({"log.cleaner.threads": "many"})).value == 1


@pytest.mark.parametrize(("name", "bad", "good"), [
    ("log.retention.ms", "0", "-5"), ("log.retention.hours", "0", "-1"), ("log.roll.ms", "0", "1"),
    ("log.roll.jitter.ms", "-1", "0"), ("log.flush.interval.ms", "-1", "0"),
    ("log.flush.scheduler.interval.ms", "-1", "0"),
    ("max.connections.per.ip.overrides", "a:1,b", "a:1, [::1]:2"),
])
def test_a_brokers_setting_keeps_within_the_range_of_the_topics(name, bad, good):
    """Kafka has no range for these in its table, and checks them elsewhere."""
    setting = tables.section("broker")[name]
    setting.parse(good)
    with pytest.raises(InvalidConfigError, match=name):
        setting.parse(bad)
