"""`kraft simulate`: the quorum, and optionally brokers, under virtual time, network and disks, with faults and
invariants."""

import json
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final, TextIO

import click

from kraft.cli.command import kraft
from kraft.cli.number_types import FloatRange, IntRange
from kraft.cli.options import JSON, OUTPUT_FILE, Fields
from kraft.cli.quorum_timeline import write_timeline
from kraft.cli.simulate_exhaustive import explore_models, replay_trace
from kraft.raft.events import Event
from kraft.recorder.entry import Entry
from kraft.recorder.ring import Recorder
from kraft.recorder.timeline import merged
from kraft.testing.explore.models import MODELS, Model
from kraft.testing.mutants.find import Hunt, hunt
from kraft.testing.mutants.patches import Mutant
from kraft.testing.mutants.registry import BROKER_MUTANTS, GROUP_MUTANTS, MUTANTS, NOT_HERE, TRANSACTION_MUTANTS
from kraft.testing.sim.campaign import Finding, Report, campaign, shrink
from kraft.testing.sim.joined import joined
from kraft.testing.sim.options import Options, parse
from kraft.testing.sim.relocation import LED_WITHIN
from kraft.testing.sim.run import (
    Outcome,
    broker_options_of,
    group_options_of,
    options_of,
    relocation_options_of,
    simulate,
    simulate_brokers,
    simulate_groups,
    simulate_relocation,
    simulate_transactions,
    transaction_options_of,
)

PROGRESS_EVERY: Final = 50


class Seeds(click.ParamType[range]):
    """A range `A..B`, both included."""

    name = "A..B"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> range:
        first, dots, last = value.partition("..")
        if not (dots and first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
            self.fail(f"{value!r}: a range of seeds is written A..B, A not above B", param, ctx)
        return range(int(first), int(last) + 1)


class FaultOptions(click.ParamType[Options]):
    """Options of a run, in the form of a report."""

    name = "NAME=VALUE ..."

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Options:
        try:
            return parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Results:
    """Output of the figures: to a file, and with --json to standard output, which then receives nothing else."""

    def __init__(self, as_json: bool, file: Path | None) -> None:
        self.for_people = sys.stderr if as_json else sys.stdout
        self._stdout = sys.stdout if as_json else None
        self._file = file

    def write(self, rows: Fields | list[Fields]) -> None:
        """Write a row or a list. A list is one JSON value in the file, and one object per line on standard output."""
        if self._file is not None:
            self._file.write_text(json.dumps(rows, indent=2) + "\n", "utf-8")
        if self._stdout is not None:
            for row in rows if isinstance(rows, list) else [rows]:
                click.echo(json.dumps(row), self._stdout)


@kraft.command("simulate")
@click.option("--brokers", is_flag=True, help="Runs with controllers, brokers and clients.")
@click.option("--transactions", is_flag=True, help="Runs with brokers, coordinators and transactional clients.")
@click.option("--groups", is_flag=True, help="Runs with brokers, group coordinators and consumers of both protocols.")
@click.option("--relocations", is_flag=True, help="Runs in which three voters are restarted at new addresses.")
@click.option("--seed", type=IntRange(0), help="One run.")
@click.option("--trace", is_flag=True, help="With --seed: print every event of the nodes.")
@click.option("--timeline", type=OUTPUT_FILE,
              help="With --seed: write what happened to the nodes as one HTML file; as text unless it ends in .html.")
@click.option("--options", type=FaultOptions(), help="With --seed: these options instead of those drawn from the seed.")
@click.option("--shrink", "shrinks", is_flag=True, help="Search for fewer faults that break the same invariant.")
@click.option("--seeds", type=Seeds(), help="All runs from seed A to seed B.")
@click.option("--minutes", type=FloatRange(0.01), help="As many runs as fit, from seed 0 or those of --seeds.")
@click.option("--jobs", type=IntRange(1), default=1, show_default=True, help="Processes.")
@click.option("--mutants", is_flag=True, help="Plant each known bug in the core and search for a seed that finds it.")
@click.option("--mutant", "mutant_names", multiple=True,
              help="With --mutants: only these. With --exhaustive: the one to find.")
@click.option("--exhaustive", is_flag=True, help="Visit all states of small quorums within bounds.")
@click.option("--model", "model_names", multiple=True, type=click.Choice(list(MODELS)),
              help="With --exhaustive: only these.")
@click.option("--states", type=IntRange(1), help="With --exhaustive: of each model, about so many.")
@click.option("--depth", type=IntRange(1), help="With --exhaustive: at most so many events in a row.")
@click.option("--replay", "trace_file", type=click.File(), help="With --exhaustive: follow a trace that was printed.")
@click.option("--join", "join_files", multiple=True, type=click.File(),
              help="Combine reports written by --output; give the option once for each.")
@JSON
@click.option("--output", "output_file", type=OUTPUT_FILE,
              help="Write the figures as JSON to a file.")
def simulate_command(brokers: bool, transactions: bool, groups: bool, relocations: bool, seed: int | None,
                     trace: bool, timeline: Path | None, options: Options | None, shrinks: bool, seeds: range | None,
                     minutes: float | None, jobs: int, mutants: bool, mutant_names: tuple[str, ...], exhaustive: bool,
                     model_names: tuple[str, ...], states: int | None, depth: int | None,
                     trace_file: TextIO | None, join_files: tuple[TextIO, ...], as_json: bool,
                     output_file: Path | None) -> None:
    """Inject faults into a quorum in virtual time, and check its invariants. Exit code 1 when an invariant was broken
    (with --mutants: when a bug was not found)."""
    if brokers + transactions + groups + relocations > 1:
        raise click.UsageError("--brokers, --transactions, --groups and --relocations are runs of different kinds")
    run, draw, known = ((simulate_brokers, broker_options_of, BROKER_MUTANTS) if brokers
                        else (simulate_transactions, transaction_options_of, TRANSACTION_MUTANTS) if transactions
                        else (simulate_groups, group_options_of, GROUP_MUTANTS) if groups
                        else (simulate_relocation, relocation_options_of, MUTANTS) if relocations
                        else (simulate, options_of, MUTANTS))
    chosen = _chosen(mutant_names, known)
    results = Results(as_json, output_file)
    with redirect_stdout(results.for_people):
        if join_files:
            _join(join_files, results)
        elif exhaustive:
            models = [MODELS[name] if depth is None else replace(MODELS[name], depth_max=depth)
                      for name in model_names or MODELS]
            _explore(models, states, chosen if mutant_names else [], trace_file, results)
        elif mutants:
            _finish_hunt(hunt(chosen, seeds or range(400), jobs, _print_hunt, draw=draw), results,
                         names_missing=known is MUTANTS)
        elif seed is not None:
            outcome = _simulate_one(seed, options or draw(seed), trace, timeline)
            _print_outcome(outcome)
            report = Report()
            report.add(outcome)
            results.write(report.as_json())
            _finish(report.findings, shrinks)
        else:
            if seeds is None and minutes is None:
                raise click.UsageError(
                    "one of --seed, --seeds, --minutes, --mutants, --exhaustive or --join is needed")
            report = campaign(count() if seeds is None else seeds, jobs, None if minutes is None else minutes * 60,
                              _print_progress, run=run)
            _print_report(report)
            results.write(report.as_json())
            _finish(report.findings, shrinks)


def _explore(models: list[Model], states: int | None, bugs: list[Mutant], trace_file: TextIO | None,
             results: Results) -> None:
    """Explore the models. Exit code 1 when an invariant was broken, or with bugs to find when none was."""
    if trace_file is not None:
        trace = replay_trace(models, trace_file, bugs)
        results.write({"violation": trace.violation and str(trace.violation), "trace": trace.events})
        is_wrong = trace.violation is not None
    else:
        explored = explore_models(models, states, bugs)
        results.write([each.as_json() for each in explored])
        is_wrong = any(each.trace for each in explored) is not bool(bugs)
    if is_wrong:
        raise click.exceptions.Exit(1)


def _join(files: tuple[TextIO, ...], results: Results) -> None:
    whole = joined([json.load(file) for file in files])
    results.write(whole)
    click.echo(f"{whole['runs']} runs, {whole['simulated_hours']:.2f} simulated hours, {whole['events']} events, "
               f"{whole['speed']:.0f} x real time on one processor")
    click.echo(f"{whole['faults_total']} faults: "
               + ", ".join(f"{name} {number}" for name, number in whole["faults"].items() if number))
    click.echo(f"{len(whole['transitions']) - len(whole['transitions_missing'])} changes of role of "
               f"{len(whole['transitions'])} in the table")
    click.echo(f"{len(whole['violations'])} violations")
    if whole["violations"]:
        raise click.exceptions.Exit(1)


def _chosen(names: tuple[str, ...], known: dict[str, Mutant]) -> list[Mutant]:
    """Return the mutants of these names; all of them without names."""
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.UsageError(f"no such mutant: {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names or known]


def _simulate_one(seed: int, options: Options, trace: bool, timeline: Path | None) -> Outcome:
    """Execute one run, and write its time line to a file if one is given."""
    recorders: dict[int, Recorder] = {}
    entries: list[Entry] = []

    def listen(node_id: int, time_ms: float, event: Event) -> None:
        recorder = recorders.setdefault(node_id, Recorder(node_id, entries.append))
        recorder.record(time_ms, event)

    outcome = simulate(seed, options, sys.stdout if trace else None, None if timeline is None else listen)
    if timeline is not None:
        for recorder in recorders.values():
            recorder.flush()
        write_timeline(timeline, merged(entries), f"Seed {seed}: {outcome.violation or 'all invariants held'}")
    return outcome


def _finish(findings: list[Finding], shrinks: bool) -> None:
    if not findings:
        return
    if shrinks:
        smallest = shrink(findings[0], lambda finding: click.echo(f"still {finding.name}: {finding.options}", err=True))
        click.echo(f"smallest: kraft simulate --seed {smallest.seed} --options '{smallest.options}' --trace")
        click.echo(f"          {smallest.name}: {smallest.text}")
    raise click.exceptions.Exit(1)


def _finish_hunt(hunts: list[Hunt], results: Results, *, names_missing: bool) -> None:
    found = [each for each in hunts if each.seed is not None]
    click.echo(f"{len(found)} of {len(hunts)} mutants found")
    if names_missing:
        for number, why in NOT_HERE.items():
            click.echo(f"{number} is not hunted: {why}")
    results.write([each.as_json() for each in hunts])
    if len(found) < len(hunts):
        raise click.exceptions.Exit(1)


def _print_outcome(outcome: Outcome) -> None:
    click.echo(f"seed {outcome.seed}: {outcome.options}")
    click.echo(f"{outcome.virtual_seconds:.1f} s, {outcome.events} events, digest {outcome.digest}")
    click.echo(f"violation: {outcome.violation}" if outcome.violation else "all invariants held")


def _print_progress(report: Report) -> None:
    if report.findings and report.findings[-1].seed == max(report.digests):
        finding = report.findings[-1]
        click.echo(f"seed {finding.seed}: {finding.name}: {finding.text}", err=True)
    if report.runs % PROGRESS_EVERY == 0:
        click.echo(f"{report.runs} runs, {report.virtual_seconds / 3600:.1f} simulated hours, "
                   f"{report.speed:.0f} x real time", err=True)


def _print_report(report: Report) -> None:
    counts, rows = report.counts, len(report.transitions)
    click.echo(f"{report.runs} runs, {report.virtual_seconds / 3600:.2f} simulated hours, {report.events} events, "
               f"{report.speed:.0f} x real time on one processor")
    click.echo(f"{sum(report.faults.values())} faults: "
               + ", ".join(f"{name} {number}" for name, number in report.faults.items() if number))
    click.echo(f"{counts['elections']} elections, {counts['core truncates']} truncations, {counts['snapshot made']} "
               f"snapshots made and {counts['snapshot installed']} installed, {counts['core voters']} voter records, "
               f"{counts['values acknowledged']} of {counts['proposals']} values acknowledged")
    click.echo(f"{counts['fetch left ahead']} fetches left ahead, {counts['fetch taken back']} were taken back, "
               f"{counts['answer to what left ahead came first']} were answered before the loop knew, "
               f"{counts['fetch without the core']} followed without the core")
    if report.brokers:
        click.echo(", ".join(f"{number} {name}" for name, number in report.brokers.items()))
    for name in sorted(name for name in counts if name.startswith(LED_WITHIN)):
        click.echo(f"{name}: {counts[name]} runs")
    missing = report.missing_transitions
    click.echo(f"{rows} changes of role of {rows + len(missing)} in the table"
               + "".join(f"\n  not seen: {' | '.join(each)}" for each in missing))
    click.echo(f"digest {report.digest}")
    click.echo(f"{len(report.findings)} violations")
    for finding in report.findings:
        click.echo(f"  seed {finding.seed}: {finding.name}: {finding.text}")


def _print_hunt(found: Hunt) -> None:
    click.echo(found.line())
