"""`kraft simulate --exhaustive`: the explorer's results as text."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TextIO

import click

from kraft.testing.explore.models import Model
from kraft.testing.explore.search import Progress, explore
from kraft.testing.explore.space import Space
from kraft.testing.explore.trace import Trace, replay
from kraft.testing.mutants.patches import Mutant, planted
from kraft_native.base.errors import InvalidArgumentError


@contextmanager
def _planted(bugs: Sequence[Mutant]) -> Iterator[None]:
    with ExitStack() as stack:
        for bug in bugs:
            stack.enter_context(planted(bug))
        yield


def explore_models(models: Sequence[Model], states: int | None, bugs: Sequence[Mutant]) -> list[Progress]:
    """Explore each model and report its progress. With injected bugs it stops after the first model that shows them."""
    results = []
    for model in models:
        click.echo(f"{model.name}: {model.text}\n  bounds: {model.bounds}")
        with _planted(bugs):
            result = explore(model, states, lambda progress: click.echo(f"  {progress.line()}", err=True))
        click.echo(f"  {result.line()}")
        results.append(result)
        if result.trace is not None:
            click.echo(f"  {len(result.trace.events)} events, and there is no shorter way:\n{result.trace}")
            if bugs:
                break
    click.echo(f"{sum(result.states for result in results)} distinct states in {len(results)} models, "
               f"{sum(result.trace is not None for result in results)} violations")
    return results


def replay_trace(models: Sequence[Model], file: TextIO, bugs: Sequence[Mutant]) -> Trace:
    """Replay a printed trace, and return it with the actions of the cores."""
    if len(models) != 1:
        raise click.UsageError("--replay needs the --model that the trace is of")
    try:
        with _planted(bugs):
            trace = replay(Space(models[0]), file.read())
    except InvalidArgumentError as error:
        raise click.UsageError(str(error)) from error
    click.echo(str(trace))
    return trace
