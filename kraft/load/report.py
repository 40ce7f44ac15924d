"""A report as one HTML file: figures as tables, plots as SVG inside it, nothing loaded from anywhere."""

import html
import io
from collections.abc import Sequence
from typing import Any, Final

from kraft.load.compare import Ratio
from kraft.load.measure import Measurement

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
        rows = [("figure", "A", "B", "A / B", "95 % interval")]
        rows += [(each.figure, f"{each.a:,.1f}", f"{each.b:,.1f}", f"{each.ratio:.3f}",
                  f"{each.low:.3f} to {each.high:.3f}") for each in ratios]
        parts.append(html_table(rows))
    if any(run.histogram for _, run in runs):
        parts += [_latency_plot(runs), _rate_plot(runs)]
    if runs:
        settings = [("setting", "value"), *((name, str(value)) for name, value in runs[0][1].workload.items())]
        parts += ["<h2>Workload</h2>", html_table(settings)]
    parts += sections
    head = f"<meta charset='utf-8'><title>{html.escape(title)}</title><style>{STYLE}</style>"
    return f"<!doctype html><html lang='en'><head>{head}</head><body>{''.join(parts)}</body></html>\n"


SUMMARY: Final = ("requests/s", "MB/s", "p50 us", "p99 us", "p99.9 us", "max us", "errors", "CPU us/request",
                  "CPU s/GB")


def _summary(name: str, run: Measurement) -> tuple[str, ...]:
    latency = run.latency_us
    cells = (run.requests_per_second, run.megabytes_per_second, latency.get("50"), latency.get("99"),
             latency.get("99.9"), latency.get("max"), run.errors, run.cpu_us_per_request,
             run.cpu_seconds_per_gigabyte)
    return (name, *("-" if cell is None else f"{cell:,.2f}" for cell in cells))


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row is its head."""
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(rows[0], "th") + "".join(line(row, "td") for row in rows[1:]) + "</table>"


def _latency_plot(runs: Sequence[tuple[str, Measurement]]) -> str:
    figure, axes = _figure("latency by percentile", "percentile", "microseconds")
    for name, run in runs:
        axes.plot([percentile for percentile, _ in run.histogram], [value for _, value in run.histogram], label=name)
    axes.set_yscale("log")
    return _svg(figure, axes)


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
