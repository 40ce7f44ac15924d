"""The tables: complete against Kafka's, every default allowed, every setting documented once."""

import json

import pytest

from kraft.config import tables
from tests.golden import golden, needs_golden

NAMES = {"topic": "topic", "broker": "broker", "brokerDynamicOnly": "broker_dynamic", "group": "group",
         "clientMetrics": "client_metrics", "quotaUserClient": "client_quota", "quotaIp": "ip_quota"}


@needs_golden
def test_every_setting_of_kafka_exists_with_its_facts():
    reference = json.loads(golden("..", "reference", "configs.json").read_text())
    for kafka_name, name in NAMES.items():
        section = tables.section(name)
        assert sorted(section) == sorted(entry["name"] for entry in reference[kafka_name])
        for entry in reference[kafka_name]:
            setting = section[entry["name"]]
            assert (setting.type, setting.default, setting.range) == \
                (entry["type"], entry.get("default"), entry.get("range", ""))


@pytest.mark.parametrize("name", tables.SECTIONS)
def test_defaults_are_allowed_and_come_back_from_their_text(name):
    for setting in tables.section(name).values():
        text = setting.format(setting.default)
        if text and not setting.range.startswith("non-"):
            assert setting.parse(text) == setting.default, setting.name


@pytest.mark.parametrize("name", tables.SECTIONS)
def test_every_setting_is_documented_in_sentences(name):
    for setting in tables.section(name).values():
        assert setting.documentation.endswith("."), setting.name
        assert len(setting.documentation) > 12, setting.name


def test_every_text_belongs_to_an_existing_setting():
    for name, texts in tables._documentation().items():
        assert set(texts) <= set(tables.section(name)), name


def test_a_brokers_default_says_what_the_topic_setting_does():
    broker = tables.section("broker")["log.retention.hours"].documentation
    topic = tables.section("topic")["retention.ms"].documentation
    assert broker == f"Default of the topic setting retention.ms. {topic}"
