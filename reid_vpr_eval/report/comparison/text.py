"""A comparison in the forms that people paste: Markdown, LaTeX, CSV, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from reid_vpr_eval.errors import FormatError, counted
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.report.text import escaped
from reid_vpr_eval.studies.comparison import Comparison, RunValue
from reid_vpr_eval.studies.comparison.text import Table, difference_table, run_table, tested
from reid_vpr_eval.summary import shown, spelled

__all__ = ["COMPARISON_FORMATS", "render_comparison"]


def render_comparison(comparison: Comparison, format: str = "table") -> str:
    """Return a comparison as text, without a final line break.

    Parameters
    ----------
    comparison : Comparison
        What to print.
    format : {"table", "markdown", "latex", "csv", "tsv", "json"}
        ``table``: as it prints itself. ``markdown``: the same tables. ``latex``: a tabular
        for the package booktabs, a column a metric; a superscript names the runs that a
        value is significantly better than. ``csv`` and ``tsv``: a line for each metric and
        pair, at full precision. ``json``: the content of comparison.json.

    Raises
    ------
    FormatError
        If there is no such format.
    """
    if format not in COMPARISON_FORMATS:
        known = ", ".join(COMPARISON_FORMATS)
        raise FormatError(f"no format is called {format!r}: one of {known} is needed")
    return COMPARISON_FORMATS[format](comparison)


def _markdown(comparison: Comparison) -> str:
    lines: list[str] = []
    for metric in comparison.metrics:
        lines += [f"**{_cell(spelled(metric, comparison.protocol))}**", ""]
        lines += [*_rows(run_table(comparison, metric), left=2), ""]
        lines += [*_rows(difference_table(comparison, metric), left=1), ""]
    lines += [f"{_cell(line)}  " for line in tested(comparison)]
    lines += [f"- {_cell(note)}" for note in comparison.notes]
    return "\n".join(line.rstrip() if not line.endswith("  ") else line for line in lines)


def _rows(table: Table, *, left: int) -> list[str]:
    head, rows = table
    marks = ["---" if i < left else "---:" for i in range(len(head))]
    lines = [list(map(_cell, head)), marks, *(list(map(_cell, row)) for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def _cell(text: str) -> str:
    """Keep a text from being read as marks of Markdown."""
    plain = " ".join(text.split())
    for mark in "\\|*_<>[]`":
        plain = plain.replace(mark, f"\\{mark}")
    return plain


def _latex(comparison: Comparison) -> str:
    names = [escaped(spelled(metric, comparison.protocol)) for metric in comparison.metrics]
    lines = [f"% {' '.join(line.split())}" for line in (*tested(comparison), *comparison.notes)]
    level = 1 - comparison.settings.level
    lines += [
        f"% superscripts: runs that this value is significantly better than (p <= {level:g})",
        rf"\begin{{tabular}}{{l@{{\enspace}}l{'r' * len(names)}}}",
        r"\toprule",
        " & ".join(["", "Run", *names]) + r" \\",
        r"\midrule",
    ]
    for run in comparison.runs:
        values = [comparison.value(run, metric) for metric in comparison.metrics]
        cells = [_value(comparison, one) for one in values]
        lines.append(" & ".join([values[0].letter, escaped(run), *cells]) + r" \\")
        below = [_below(one) for one in values]
        if any(below):
            lines.append(" & ".join(["", "", *below]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _value(comparison: Comparison, one: RunValue) -> str:
    """Return a value with the letters of what it beats, the best one in bold."""
    every = [other.value for other in comparison.values if other.metric == one.metric]
    best = max(every) if parse(one.metric).metric.direction == "up" else min(every)
    text = shown(one.metric, one.value)
    text = rf"\textbf{{{text}}}" if one.value == best and min(every) < max(every) else text
    return rf"{text}\textsuperscript{{{','.join(one.beats)}}}" if one.beats else text


def _below(one: RunValue) -> str:
    """Return the interval, and the spread over runs in words of its own."""
    parts = []
    if one.low is not None and one.high is not None:
        parts.append(f"[{shown(one.metric, one.low)}, {shown(one.metric, one.high)}]")
    scale = 1 if parse(one.metric).metric.is_rank else 100
    if one.sd_runs is not None:
        parts.append(f"SD {scale * one.sd_runs:.2f} over {counted(one.n_runs, 'run')}")
    if one.sd_draws is not None:
        parts.append(f"SD {scale * one.sd_draws:.2f} over {counted(one.n_draws or 0, 'draw')}")
    return rf"{{\scriptsize {', '.join(parts)}}}" if parts else ""


def _separated(mark: str) -> Callable[[Comparison], str]:
    def text(comparison: Comparison) -> str:
        table = comparison.to_frame()
        return str(table.to_csv(sep=mark, index=False, lineterminator="\n")).rstrip("\n")

    return text


def _json(comparison: Comparison) -> str:
    return json.dumps(
        comparison.document(), sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False
    )


#: How each format is written, by name.
COMPARISON_FORMATS: Mapping[str, Callable[[Comparison], str]] = {
    "table": str,
    "markdown": _markdown,
    "latex": _latex,
    "csv": _separated(","),
    "tsv": _separated("\t"),
    "json": _json,
}
