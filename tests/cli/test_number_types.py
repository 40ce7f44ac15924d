"""No option and no argument of any command accepts a non-number as a number."""

from collections.abc import Iterator

import click
import pytest

from kraft.cli.bench_options import Acks
from kraft.cli.command import kraft, run
from kraft.cli.number_types import NUMBER, WHOLE, FloatRange, IntRange, whole_number

NO_NUMBERS = ("1_0", "1_000", " 10", "10 ", "\uff11\uff10", "0x10", "", "ten")


def numeric(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Parameter]]:
    """Yield the numeric parameters of the command and of those below it."""
    for parameter in command.params:
        if isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType | Acks):
            yield f"{context.command_path} {parameter.name}", parameter
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from numeric(child, click.Context(child, parent=context, info_name=name))


def test_every_number_of_the_command_line() -> None:
    top = click.Context(kraft, info_name="kraft")
    found = dict(numeric(kraft, top))
    assert len(found) > 50
    taken = []
    for name, parameter in found.items():
        for text in NO_NUMBERS:
            try:
                parameter.type.convert(text, parameter, top)
            except click.BadParameter:
                continue
            taken.append((name, text))
    assert taken == []


@pytest.mark.parametrize(("kind", "text", "value"), [
    (WHOLE, "-12", -12), (IntRange(0), "+7", 7), (IntRange(0), 7, 7), (NUMBER, "1.5e3", 1500.0), (NUMBER, 0.0, 0.0),
    (FloatRange(0), ".5", 0.5), (FloatRange(0), "2.", 2.0),
])
def test_numbers_are_read(kind: click.ParamType, text: object, value: float) -> None:
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e", "1_0.5", "infinity"])
def test_a_time_is_finite(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a valid number|is no number|is not in the range"):
        FloatRange(0).convert(text, None, None)


def test_a_wrong_number_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["quorum", "add", "1_0"]) == 2
    assert "'1_0' is not a valid integer" in capsys.readouterr().err
    with pytest.raises(ValueError, match="'1_0' is not a whole number"):
        whole_number("1_0")
