"""Kafka's spellings of arguments mean the same as ours."""

from collections.abc import Callable
from typing import Any

import click
import pytest

from kraft.cli.kafka_names import group_argument, reset_target, start_option, topic_argument, topics_argument

Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def parsed(decorator: Decorator, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    @click.command()
    @decorator
    def command(**options: Any) -> None:
        found.update(options)

    command.main(list(arguments), standalone_mode=False)
    return found


@pytest.mark.parametrize(("decorator", "arguments", "expected"), [
    (topics_argument, ("a", "b"), {"topics": ("a", "b")}), (topics_argument, ("--topic", "a"), {"topics": ("a",)}),
    (topics_argument, ("a", "--topic", "b"), {"topics": ("a", "b")}),
    (topic_argument, ("a",), {"topic": "a"}), (topic_argument, ("--topic", "a"), {"topic": "a"}),
    (group_argument, ("--group", "g"), {"group": "g"}),
    (reset_target, ("--to", "latest"), {"to": "latest"}), (reset_target, ("--to-earliest",), {"to": "earliest"}),
    (reset_target, ("--to-latest",), {"to": "latest"}), (reset_target, ("--to-offset", "5"), {"to": "5"}),
    (reset_target, ("--shift-by", "5"), {"to": "+5"}), (reset_target, ("--shift-by", "-5"), {"to": "-5"}),
    (reset_target, ("--to-datetime", "2026-01-31"), {"to": "2026-01-31"}),
    (start_option, (), {"start": "beginning"}), (start_option, ("--from-beginning",), {"start": "beginning"}),
    (start_option, ("--offset", "7"), {"start": "7"}), (start_option, ("--from", "end"), {"start": "end"}),
])
def test_spellings(decorator: Decorator, arguments: tuple[str, ...], expected: dict[str, Any]) -> None:
    assert parsed(decorator, *arguments) == expected


@pytest.mark.parametrize(("decorator", "arguments", "why"), [
    (topics_argument, (), "TOPIC..."), (topic_argument, (), "TOPIC"),
    (topic_argument, ("a", "--topic", "b"), "both name the topic"), (reset_target, (), "says where"),
    (reset_target, ("--to", "1", "--to-latest"), "says where"),
    (start_option, ("--from-beginning", "--offset", "7"), "both say where to begin"),
])
def test_what_does_not_fit_together(decorator: Decorator, arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        parsed(decorator, *arguments)
    assert why in refused.value.format_message()
