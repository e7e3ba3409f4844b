"""A result as text: for people, for papers, and for scripts that parse other tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from reid_vpr_eval.errors import FormatError
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.result import Result
from reid_vpr_eval.summary import interval_lines, shown, shown_interval, spelled

__all__ = ["FORMATS", "escaped", "hit_rates", "render", "reported"]

_CUTS = (1, 5, 10, 20)
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}


def render(result: Result, format: str = "table") -> str:
    """Return a result as text, without a final line break.

    Parameters
    ----------
    result : Result
        What to print.
    format : {"table", "json", "tsv", "latex", "torchreid", "vpr"}
        ``table``: as the result prints itself. ``json``: the content of result.json.
        ``tsv``: a metric and its value a line, at full precision, and the limits of its
        interval where it has one. ``latex``: a tabular for the package booktabs, intervals
        in a row of their own. ``torchreid`` and ``vpr``: the lines that these tools
        print and that scripts parse.

    Returns
    -------
    str

    Raises
    ------
    FormatError
        If there is no such format.
    """
    if format not in FORMATS:
        raise FormatError(f"no format is called {format!r}: one of {', '.join(FORMATS)} is needed")
    return FORMATS[format](result)


def reported(result: Result) -> dict[str, float]:
    """Return the metrics in the order in which the protocol reports them."""
    wanted = [str(parse(name)) for name in result.protocol.report.metrics]
    order = [name for name in wanted if name in set(result.metrics)]
    order += [name for name in result.metrics if name not in order]
    return {name: result.metrics[name] for name in order}


def hit_rates(result: Result, cuts: tuple[int, ...] = ()) -> dict[int, float]:
    """Return the hit rates by whole cut-off: the reported ones, and these from the curve.

    The curve is a mean over queries: under a macro average it adds nothing.
    """
    names = [parse(name) for name in result.metrics]
    found = {
        int(name.k): result.metrics[str(name)]
        for name in names
        if name.name == "CMC" and name.k.isdecimal()
    }
    absent = [k for k in cuts if k not in found]
    if absent and not result.protocol.evaluation.macro:
        curve = result.curve("CMC", max(absent))
        values = dict(zip(curve["k"].tolist(), curve["value"].tolist(), strict=True))
        found |= {k: values[k] for k in absent}
    return dict(sorted(found.items()))


def _json(result: Result) -> str:
    return json.dumps(
        result.document(), sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False
    )


def _tsv(result: Result) -> str:
    lines = []
    for name, value in reported(result).items():
        made = result.intervals.get(name)
        limits = () if made is None else (made.low, made.high)
        lines.append("\t".join([name, *(repr(float(one)) for one in (value, *limits))]))
    return "\n".join(lines)


def _latex(result: Result) -> str:
    protocol = result.protocol
    names = [escaped(spelled(name, protocol)) for name in reported(result)]
    values = [shown(name, value) for name, value in reported(result).items()]
    lines = [
        rf"\begin{{tabular}}{{l{'r' * len(names)}}}",
        r"\toprule",
        " & ".join(["Protocol", *names]) + r" \\",
        r"\midrule",
        " & ".join([escaped(protocol.title or protocol.name), *values]) + r" \\",
        *_latex_intervals(result),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines)


def _latex_intervals(result: Result) -> list[str]:
    """Return a row of intervals, and what they are as a comment."""
    limits = [shown_interval(name, result.intervals.get(name)) for name in reported(result)]
    if not any(limits):
        return []
    row = " & ".join(["", *(rf"{{\scriptsize {text}}}" if text else "" for text in limits)])
    return [f"{row} \\\\", *(f"% {line}" for line in interval_lines(result))]


def escaped(text: str) -> str:
    """Return a text in one line that LaTeX prints as it is."""
    return "".join(_LATEX.get(letter, letter) for letter in " ".join(text.split()))


def _torchreid(result: Result) -> str:
    rates = hit_rates(result, _CUTS)
    lines = [f"mAP: {result.metrics['mAP']:.1%}"] if "mAP" in list(result.metrics) else []
    lines += [f"Rank-{k:<3}: {rates[k]:.1%}" for k in _CUTS if k in rates]
    return "\n".join(lines)


def _vpr(result: Result) -> str:
    rates = hit_rates(result) or hit_rates(result, _CUTS)
    return ", ".join(f"R@{k}: {100 * value:.1f}" for k, value in rates.items())


#: How each format is written, by name.
FORMATS: Mapping[str, Callable[[Result], str]] = {
    "table": str,
    "json": _json,
    "tsv": _tsv,
    "latex": _latex,
    "torchreid": _torchreid,
    "vpr": _vpr,
}
