"""A report as one HTML file: figures as tables, plots as inline SVG, no external resources."""

import html
import io
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from kraft.load.compare import RATIO_NOTE, Ratio
from kraft.load.measure import Measurement
from kraft.load.workload import Workload

MAXIMUM: Final = 100.0
ONE_IN: Final = 10

STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
svg { max-width: 100%; height: auto; }
"""


def html_report(title: str, runs: Sequence[tuple[str, Measurement]], ratios: Sequence[Ratio] = (),
                sections: Sequence[str] = ()) -> str:
    """The page: named measurements, the ratios of a comparison, and `sections` of HTML after them. Plots need
    matplotlib (`kraft[bench]`)."""
    parts = [f"<h1>{html.escape(title)}</h1>"]
    if runs:
        parts.append(html_table([("run", *SUMMARY), *(_summary(*run) for run in runs)]))
    if ratios:
        parts.append(ratio_table("A", "B", ratios))
    if any(run.backlog for _, run in runs):
        parts += ["<h2>Backlog</h2>", html_table([("run", *BACKLOG), *(_backlog(*run) for run in runs)])]
    if any(run.histogram for _, run in runs):
        parts.append(_latency_plot(runs))
    if any(run.requests_per_slot for _, run in runs):
        parts.append(_rate_plot(runs))
    if runs:
        parts += ["<h2>Runs</h2>", html_table([("run", *ORIGIN), *(_origin(*run) for run in runs)])]
        parts += ["<h2>Workload</h2>", *(html_table(rows) for rows in _workloads(runs))]
    parts += sections
    head = f"<meta charset='utf-8'><title>{html.escape(title)}</title><style>{STYLE}</style>"
    return f"<!doctype html><html lang='en'><head>{head}</head><body>{''.join(parts)}</body></html>\n"


SUMMARY: Final = ("requests/s", "MB/s", "p50 us", "p99 us", "p99.9 us", "max us", "end-to-end p50 us",
                  "end-to-end p99 us", "end-to-end max us", "errors", "CPU us/request", "CPU s/GB")
ORIGIN: Final = ("date", "host", "version", "processes", "server", "metadata.version", "durability", "loop",
                 "latency samples", "end-to-end samples", "records sent", "records read")
BACKLOG: Final = ("MB", "records", "seconds to build", "seconds to drain", "records unread")


def _summary(name: str, run: Measurement) -> tuple[str, ...]:
    latency, end_to_end = run.latency_us, run.end_to_end_us or {}
    cells = (run.requests_per_second, run.megabytes_per_second, latency.get("50"), latency.get("99"),
             latency.get("99.9"), latency.get("max"), end_to_end.get("50"), end_to_end.get("99"),
             end_to_end.get("max"), run.errors, run.cpu_us_per_request, run.cpu_seconds_per_gigabyte)
    return (name, *("-" if cell is None else f"{cell:,.2f}" for cell in cells))


def _origin(name: str, run: Measurement) -> tuple[str, ...]:
    return (name, run.date or "-", run.host or "-", f"kraft {run.version}" if run.version else "-",
            str(run.processes), f"{run.server}, {run.brokers} broker(s)" if run.brokers else run.server,
            run.metadata_version or "-", run.durability or "-",
            loop_of(run), f"{run.samples:,}" if run.samples else "-",
            f"{run.end_to_end_samples:,}" if run.end_to_end_samples else "-", f"{run.records_sent:,}",
            f"{run.records_read:,}")


def loop_of(run: Measurement) -> str:
    """Describe how requests were started."""
    known = {each.name: run.workload[each.name] for each in fields(Workload) if each.name in run.workload}
    return Workload(**known).loop


def _backlog(name: str, run: Measurement) -> tuple[str, ...]:
    found = run.backlog
    if found is None:
        return (name, *("-" for _ in BACKLOG))
    return (name, f"{found['bytes'] / 1e6:,.1f}", f"{found['records']:,.0f}", f"{found['build_seconds']:,.2f}",
            f"{found['drain_seconds']:,.2f}", f"{found['records_left']:,.0f}")


def _workloads(runs: Sequence[tuple[str, Measurement]]) -> list[list[tuple[str, ...]]]:
    """One table for each distinct workload."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, run in runs:
        found.setdefault(tuple((key, str(value)) for key, value in run.workload.items()), []).append(name)
    return [[("setting", ", ".join(names) if len(found) > 1 else "value"), *settings]
            for settings, names in found.items()]


def ratio_table(a: str, b: str, ratios: Sequence[Ratio]) -> str:
    """Table of ratios, with a note on their meaning."""
    rows = [("figure", a, b, "ratio", "95 % interval", "pairs")]
    rows += [(each.figure, f"{each.a:,.1f}", f"{each.b:,.1f}", f"{each.ratio:.3f}", each.interval_text,
              str(each.pairs)) for each in ratios]
    return f"{html_table(rows)}<p>{html.escape(RATIO_NOTE)}</p>"


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """Table whose first row is its head."""
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(rows[0], "th") + "".join(line(row, "td") for row in rows[1:]) + "</table>"


def _latency_plot(runs: Sequence[tuple[str, Measurement]]) -> str:
    """Plot latencies over 1 / (1 - percentile), so that every further nine has the same width."""
    figure, axes = _figure("latency by percentile", "percentile", "microseconds")
    most = 1.0
    for name, run in runs:
        for label, curve, count in ((name, run.histogram, run.samples),
                                    (f"{name}, end to end", run.end_to_end_histogram, run.end_to_end_samples)):
            points = [(place_of(percentile, count), value) for percentile, value in curve
                      if percentile < MAXIMUM or count]
            if points:
                axes.plot([x for x, _ in points], [value for _, value in points], label=label)
                most = max(most, points[-1][0])
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = [ONE_IN**power for power in range(math.ceil(math.log10(most)) + 1)]
    axes.set_xticks(ticks, [tick_text(tick) for tick in ticks])
    axes.minorticks_off()
    return _svg(figure, axes)


def place_of(percentile: float, samples: int) -> float:
    """Position of a percentile on the axis; the maximum is at the last sample."""
    return samples if percentile >= MAXIMUM else 1 / (1 - percentile / 100)


def tick_text(one_in: int) -> str:
    """Text of a tick: `99.9 %` for one in a thousand."""
    return f"{100 * (1 - 1 / one_in):.10g} %"


def _rate_plot(runs: Sequence[tuple[str, Measurement]]) -> str:
    figure, axes = _figure("requests over time", "seconds", "requests/s")
    for name, run in runs:
        if run.requests_per_slot:
            width = run.seconds / len(run.requests_per_slot)
            axes.plot([number * width for number in range(len(run.requests_per_slot))],
                      [count / width for count in run.requests_per_slot], label=name)
    axes.set_ylim(bottom=0)
    return _svg(figure, axes)


def _figure(title: str, x: str, y: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.5), layout="constrained")
    axes = figure.add_subplot()
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    return figure, axes


def _svg(figure: Any, axes: Any) -> str:
    axes.legend()
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg"):]
