"""One filled instance of every message at every version, encoded by Kafka: the same values, the same bytes."""

import json
from typing import Any

from tests.golden import golden_root, needs_golden
from tests.protocol.json_form import JsonForm, lower_keys, message_class


def vectors() -> list[dict[str, Any]]:
    root = golden_root()
    if root is None:
        return []
    text = (root.parent / "reference" / "vectors.jsonl").read_text("utf-8")
    found = [json.loads(line) for line in text.splitlines()]
    for vector in found:
        if vector["name"] == "ProducerSnapshot":
            # The value given to Kafka's encoder had more bits than the field; the encoder wrote the low ones.
            vector["value"]["crc"] &= 0xFFFFFFFF
    return found


@needs_golden
def test_all_vectors() -> None:
    """All vectors are in one test, because 728 tests would spend their time on their own reports."""
    wrong = []
    for vector in vectors():
        name, version, data = vector["name"], vector["version"], bytes.fromhex(vector["hex"])
        form = JsonForm(name, version)
        message = message_class(name).decode(data, version, exact=True)
        if form.write(message) != lower_keys(vector["value"]):
            wrong.append(f"{name} version {version}: decoded to {message}")
        if message.encode(version) != data:
            wrong.append(f"{name} version {version}: encoded again to {message.encode(version).hex()}")
        built = form.read(vector["value"])
        if built != message or built.encode(version) != data:
            wrong.append(f"{name} version {version}: built from its values it is {built}")
    assert not wrong, "\n".join(wrong[:5])


@needs_golden
def test_the_vectors_cover_every_message_of_kafka() -> None:
    seen = {(vector["name"], vector["version"]) for vector in vectors()}
    assert len(seen) == 728


@needs_golden
def test_a_wrong_byte_is_seen() -> None:
    vector = next(each for each in vectors() if each["name"] == "HeartbeatRequest")
    data = bytearray.fromhex(vector["hex"])
    data[2] ^= 1
    message = message_class("HeartbeatRequest").decode(bytes(data), vector["version"])
    assert JsonForm("HeartbeatRequest", vector["version"]).write(message) != lower_keys(vector["value"])
