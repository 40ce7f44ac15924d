"""`kraft pipeline audit`: checks that all replicas are sound and identical."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kraft.cli.options import JSON, count_of, print_json, print_table
from kraft.cli.pipeline_workers import chosen_workers, worker_options
from kraft.cli.progress import progress_bar

if TYPE_CHECKING:
    from kraft.pipeline.audit import Verdict


@click.command("audit")
@click.argument("directories", metavar="DIRECTORY...", nargs=-1, required=True,
                type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only this topic; may be given again.")
@worker_options
@JSON
@click.pass_context
def audit_command(context: click.Context, directories: tuple[Path, ...], topics: tuple[str, ...],
                  threads: int | None, master: str | None, spark_settings: tuple[str, ...], as_json: bool) -> None:
    """Check every batch of all replicas, and that replicas have the same batches.

    DIRECTORY is a data directory of a node (of its log.dirs), of kraft or of Apache Kafka; give those of all nodes.
    Only reads, and may run beside the nodes. Compares the records from the compacted part up to the smallest high
    watermark. Exit code 1 when something is damaged or differs.
    """
    from kraft.pipeline import audit
    from kraft.pipeline.replicas import find_replicas

    scopes = [audit.scope_of(replicas) for replicas in find_replicas(directories, topics).values()]
    if not scopes:
        raise click.UsageError("no partition there" + (f" of {', '.join(topics)}" if topics else ""))
    total = sum(replica.size_bytes for scope in scopes for replica in scope.replicas)
    with chosen_workers(threads, master, spark_settings) as workers, progress_bar("audit", total) as progress:
        verdicts = list(audit.run(scopes, workers, progress=progress))
    if as_json:
        print_json(verdict.as_dict() for verdict in verdicts)
    else:
        _print_verdicts(verdicts)
    context.exit(0 if all(verdict.sound for verdict in verdicts) else 1)


def _print_verdicts(verdicts: list["Verdict"]) -> None:
    print_table(("topic", "partition", "replicas", "from", "to", "records", "verdict"), [
        (each.topic, each.partition, len(each.replicas), each.start, each.end, each.records, _verdict_text(each))
        for each in verdicts])
    for each in verdicts:
        for damage in each.damages:
            until = f"to {damage.next_offset - 1}" if damage.next_offset >= 0 else "to the end of the segment"
            click.echo(f"{damage.directory}/{damage.file} position {damage.position}: offsets {damage.offset} {until} "
                       f"cannot be read: {damage.what}")
        for label, version in each.versions.items():
            click.echo(f"{each.topic}-{each.partition} at offset {each.divergent_offset}, {label}: {version}")
    wrong = sum(not each.sound for each in verdicts)
    click.echo(f"{count_of(len(verdicts), 'partition')}: {'all sound' if not wrong else f'{wrong} with differences'}")


def _verdict_text(verdict: "Verdict") -> str:
    if verdict.divergent_offset >= 0:
        return f"differs at {verdict.divergent_offset}"
    return f"{count_of(len(verdict.damages), 'damage')}" if verdict.damages else "sound"
