"""Results that may be drawn together and compared, and why others may not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reid_vpr_eval.errors import ReidVprEvalError
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.report.comparison import ComparisonSection, comparison_section
from reid_vpr_eval.report.figures import SavedFigure, SavedFigures, save_figures
from reid_vpr_eval.report.inline import inline_svg
from reid_vpr_eval.report.sentences import main_metrics
from reid_vpr_eval.result import Result
from reid_vpr_eval.studies.comparison import compare

__all__ = ["Figure", "Group", "groups_of", "why_apart"]

_COMPARED = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure on the page: an element, what it shows in words, and the names of its files."""

    name: str
    svg: str
    caption: str
    files: tuple[str, ...]

    @property
    def where(self) -> str:
        """The files in short: their common name, and their suffixes."""
        names = [file.rpartition(".") for file in sorted(self.files)]
        return f"{names[0][0]} ({', '.join(name[2] for name in names)})"


@dataclass(frozen=True, slots=True)
class Group:
    """Results of one protocol on the same queries and gallery.

    Attributes
    ----------
    anchor, title : str
        Of the part of the page that compares them.
    rows : tuple of int
        Which results.
    figures : list of (Figure, positions in the group)
    tables : tuple of str
        Further files that were written.
    skipped : dict of str to str
        Figures that do not apply, and why.
    comparison : ComparisonSection or None
        If there are several results.
    reason : str
        Why several results are not compared.
    """

    anchor: str
    title: str
    rows: tuple[int, ...]
    figures: list[tuple[Figure, tuple[int, ...]]]
    tables: tuple[str, ...]
    skipped: dict[str, str]
    comparison: ComparisonSection | None
    reason: str

    @property
    def shared(self) -> list[Figure]:
        """The figures of several results."""
        return [figure for figure, rows in self.figures if len(rows) > 1]

    def own(self, place: int) -> list[Figure]:
        """Return the figures of one result alone."""
        return [figure for figure, rows in self.figures if rows == (place,)]


def groups_of(results: Sequence[Result], titles: Sequence[str], folder: Path) -> list[Group]:
    """Part results into groups that may be compared; write and return their figures.

    One group has its figures in the folder, several each in a folder below.
    """
    rows: dict[tuple[str, ...], list[int]] = {}
    for i, one in enumerate(results):
        bare = (str(i),) if not len(one.per_query) else ()
        rows.setdefault((*_key(one), *bare), []).append(i)
    return [
        _group(number, chosen, results, titles, folder, alone=len(rows) == 1)
        for number, chosen in enumerate(rows.values(), 1)
    ]


def why_apart(results: Sequence[Result]) -> str:
    """Say why results on one page must not be compared with each other, if so."""
    if len({one.protocol.judging_hash for one in results}) > 1:
        return "judged by different protocols"
    for side in ("query", "gallery"):
        if len({str(one.inputs.get(side)) for one in results}) > 1:
            return f"of different {side} sets"
    return ""


def _key(result: Result) -> tuple[str, ...]:
    sides = (str(result.inputs.get(side)) for side in ("query", "gallery"))
    return (result.protocol.judging_hash, *sides)


def _group(
    number: int, rows: list[int], results: Sequence[Result], titles: Sequence[str], folder: Path,
    *, alone: bool,
) -> Group:  # fmt: skip
    chosen, names = [results[i] for i in rows], [titles[i] for i in rows]
    below = "" if alone else f"{number}-{_plain(chosen[0].protocol.name)}/"
    saved = SavedFigures((), (), {"all": "the run holds no table of queries (per_query.csv)"})
    if len(chosen[0].per_query):
        saved = save_figures(chosen, folder / below, names=names)
    comparison, reason = (None, "") if len(rows) == 1 else _compared(chosen, names, f"c{number}-")
    title = chosen[0].protocol.title or chosen[0].protocol.name
    return Group(
        anchor=f"c{number}",
        title=f"Comparison: {title}",
        rows=tuple(rows),
        figures=[(_figure(one, number, below), one.runs) for one in saved.figures],
        tables=tuple(f"figures/{below}{name}" for name in saved.tables),
        skipped=saved.skipped,
        comparison=comparison,
        reason=reason,
    )


def _figure(one: SavedFigure, number: int, below: str) -> Figure:
    files = tuple(f"figures/{below}{name}" for name in one.files)
    return Figure(one.name, inline_svg(one.svg, f"f{number}-{one.name}", one.spoken),
                  one.caption, files)  # fmt: skip


def _compared(
    results: Sequence[Result], names: Sequence[str], mark: str
) -> tuple[ComparisonSection | None, str]:
    wanted = [name for name in main_metrics(results[0]) if parse(name).metric.aggregate == "mean"
              and all(name in list(one.metrics) for one in results)][:_COMPARED]  # fmt: skip
    try:
        found = compare(list(results), wanted or None, names=list(names))
        return comparison_section(found, mark=mark), ""
    except ReidVprEvalError as error:
        return None, str(error)


def _plain(name: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)
