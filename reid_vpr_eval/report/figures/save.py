"""All figures that apply to some results, as files, and why the others do not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from reid_vpr_eval.archive import write_atomically
from reid_vpr_eval.errors import AlignmentError, FormatError, NotCountedError
from reid_vpr_eval.places import near_misses
from reid_vpr_eval.report.figures.cameras import CameraMatrixDisplay
from reid_vpr_eval.report.figures.conditions import ConditionDisplay
from reid_vpr_eval.report.figures.curves import CurveDisplay
from reid_vpr_eval.report.figures.distances import ErrorDisplay, RadiusDisplay
from reid_vpr_eval.report.figures.distributions import AveragePrecisionDisplay, ScoreDisplay
from reid_vpr_eval.report.figures.failures import FailureMapDisplay
from reid_vpr_eval.report.figures.rates import (
    FirstAnswerDisplay,
    PrecisionRecallDisplay,
    RocDisplay,
)
from reid_vpr_eval.report.figures.style import Display, figure_bytes, run_names
from reid_vpr_eval.report.geojson import geojson_bytes
from reid_vpr_eval.result import Result
from reid_vpr_eval.tables import csv_bytes, json_bytes, read_json

__all__ = ["SavedFigure", "SavedFigures", "remove_figures", "save_figures"]

_INDEX = "figures.json"


@dataclass(frozen=True, slots=True, eq=False)
class SavedFigure:
    """A figure that was drawn and written.

    Attributes
    ----------
    name : str
        What its files are called, without suffix.
    caption, spoken : str
        What it shows, for a caption and for those who do not see it.
    runs : tuple of int
        The results that it shows, as positions.
    svg : bytes
        The file, to be set into a page.
    files : tuple of str
        The files that were written.
    """

    name: str
    caption: str
    spoken: str
    runs: tuple[int, ...]
    svg: bytes
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SavedFigures:
    """What :func:`save_figures` wrote.

    Attributes
    ----------
    figures : tuple of SavedFigure
        In the order in which a report shows them.
    tables : tuple of str
        Further files: the map as GeoJSON, the near misses.
    skipped : dict of str to str
        The figures that do not apply, with the reason.
    """

    figures: tuple[SavedFigure, ...]
    tables: tuple[str, ...]
    skipped: dict[str, str]


def save_figures(
    results: Result | Sequence[Result],
    folder: str | os.PathLike[str],
    *,
    names: Sequence[str] = (),
) -> SavedFigures:
    """Draw every figure that applies and write it as SVG and PNG.

    Results that are judged by distance are drawn together, and all others together. Figures
    of one result each (cameras, maps) carry the number of the result if there are several.
    The same results give the same bytes.

    Parameters
    ----------
    results : Result or sequence of Result
    folder : path
        Where to write; what an earlier call wrote there and this one does not is removed.
    names : sequence of str, optional
        What the results are called; by default the titles of their protocols.

    Returns
    -------
    SavedFigures

    Raises
    ------
    AlignmentError
        If there is no result, or not one name for each.
    """
    given = [results] if isinstance(results, Result) else list(results)
    titles = run_names(given, names)
    target = Path(folder)
    figures: list[SavedFigure] = []
    tables: list[str] = []
    skipped: dict[str, str] = {}
    for wish in _wishes(given, titles):
        display = _drawn(wish, skipped)
        if display is not None:
            figures.append(_written(wish, display, target))
    for number, one in enumerate(given):
        mark = f"-{number + 1}" if len(given) > 1 else ""
        tables += _tables(one, mark, target, skipped)
    _write_index(target, figures, tables, skipped)
    return SavedFigures(tuple(figures), tuple(tables), skipped)


def remove_figures(folder: str | os.PathLike[str]) -> None:
    """Remove what :func:`save_figures` wrote into a folder, and nothing else."""
    target = Path(folder)
    for name in _listed(target):
        (target / name).unlink(missing_ok=True)
    (target / _INDEX).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Wish:
    """A figure to be made, and of which results."""

    name: str
    make: Callable[[], Display]
    runs: tuple[int, ...]


def _wishes(results: Sequence[Result], titles: Sequence[str]) -> Iterator[_Wish]:
    groups: dict[bool, list[int]] = {}
    for number, one in enumerate(results):
        groups.setdefault(one.protocol.relevance.kind == "within", []).append(number)
    for places, rows in groups.items():
        mark = "-places" if places and len(groups) > 1 else ""
        yield from _of_group(results, titles, rows, mark)


def _of_group(
    results: Sequence[Result], titles: Sequence[str], rows: list[int], mark: str
) -> Iterator[_Wish]:
    """Yield what results of one kind are drawn as: together, then one by one."""
    places = results[rows[0]].protocol.relevance.kind == "within"

    def together(kind: type[Any], name: str, chosen: Sequence[int], *more: Any) -> _Wish:
        make = partial(kind.from_results, [results[i] for i in chosen], *more,
                       names=[titles[i] for i in chosen])  # fmt: skip
        return _Wish(name, make, tuple(chosen))

    def able(kind: type[Any]) -> list[int]:
        """Return the results that a figure can be made of; all if it is none."""
        if len(rows) == 1:
            return rows
        return [i for i in rows if _can(partial(kind.from_result, results[i]))] or rows

    yield together(CurveDisplay, "recall" if places else "cmc", rows)
    shared: list[type[Any]] = [RadiusDisplay, ErrorDisplay, FirstAnswerDisplay] if places else []
    if any("mAP" in list(results[i].metrics) for i in rows):
        shared += [AveragePrecisionDisplay, PrecisionRecallDisplay]
    shared += [ScoreDisplay, RocDisplay]
    for kind in shared:
        yield together(kind, kind.kind_name + mark, able(kind))
    for column, chosen in _columns(results, rows).items():
        name = f"{ConditionDisplay.kind_name}-{_plain(column)}{mark}"
        yield together(ConditionDisplay, name, chosen, column)
    for i in rows:
        number = f"-{i + 1}" if len(results) > 1 else ""
        single: list[type[Any]] = [FailureMapDisplay] if places else []
        for kind in (*single, CameraMatrixDisplay):
            make = partial(kind.from_result, results[i], name=titles[i])
            yield _Wish(kind.kind_name + number, make, (i,))


def _columns(results: Sequence[Result], rows: Sequence[int]) -> dict[str, list[int]]:
    """Return the columns that results can be parted by, and which results have each."""
    found: dict[str, list[int]] = {}
    for i in rows:
        parts = results[i].breakdowns
        columns = [] if parts is None else list(dict.fromkeys(parts["column"].tolist()))
        if "camera" in results[i].per_query and "camera" not in columns:
            columns.append("camera")
        for column in columns:
            found.setdefault(str(column), []).append(i)
    return found


def _can(make: Callable[[], Any]) -> bool:
    try:
        make()
    except NotCountedError:
        return False
    return True


def _drawn(wish: _Wish, skipped: dict[str, str]) -> Display | None:
    """Make and draw a figure, or note why it cannot be."""
    try:
        return wish.make().plot()
    except (NotCountedError, AlignmentError) as error:
        skipped[wish.name] = str(error)
        return None


def _written(wish: _Wish, display: Display, target: Path) -> SavedFigure:
    assert display.figure_ is not None  # noqa: S101 (set by plot)
    svg = figure_bytes(display.figure_, "svg")
    write_atomically(target / f"{wish.name}.svg", svg)
    write_atomically(target / f"{wish.name}.png", figure_bytes(display.figure_, "png"))
    files = (f"{wish.name}.png", f"{wish.name}.svg")
    return SavedFigure(wish.name, display.caption, display.spoken(), wish.runs, svg, files)


def _tables(result: Result, mark: str, target: Path, skipped: dict[str, str]) -> list[str]:
    """Write what stands beside a map."""
    missed = near_misses(result.protocol, result.per_query)
    if missed is None:
        return []
    written = [f"near_misses{mark}.csv"]
    write_atomically(target / written[0], csv_bytes(missed))
    try:
        content = geojson_bytes(result)
    except NotCountedError as error:
        skipped[f"map{mark}.geojson"] = str(error)
        return written
    write_atomically(target / f"map{mark}.geojson", content)
    return [*written, f"map{mark}.geojson"]


def _write_index(
    target: Path, figures: Sequence[SavedFigure], tables: Sequence[str], skipped: dict[str, str]
) -> None:
    """Write what there is, and remove what an earlier index names and this one does not."""
    files = [name for figure in figures for name in figure.files] + list(tables)
    for name in set(_listed(target)) - set(files):
        (target / name).unlink(missing_ok=True)
    entries = [{"name": one.name, "caption": one.caption, "runs": list(one.runs),
                "files": list(one.files)} for one in figures]  # fmt: skip
    content = {"figures": entries, "tables": list(tables), "skipped": skipped}
    write_atomically(target / _INDEX, json_bytes(content))


def _listed(target: Path) -> list[str]:
    """Return the files that an index names, if there is one: plain names only."""
    if not (target / _INDEX).is_file():
        return []
    try:
        content = read_json(target / _INDEX)
        names = [name for one in content["figures"] for name in one["files"]]
        names += content["tables"]
    except (FormatError, KeyError, TypeError):
        return []
    return [name for name in names if isinstance(name, str) and Path(name).name == name]


def _plain(column: str) -> str:
    """Return a column's name as a part of a file name."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in column)[:40]
