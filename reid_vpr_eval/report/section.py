"""One result as a page shows it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from reid_vpr_eval.errors import ReidVprEvalError, counted
from reid_vpr_eval.places import near_misses
from reid_vpr_eval.report.comparable import Figure, Group
from reid_vpr_eval.report.figures import FailureMapDisplay
from reid_vpr_eval.report.figures.style import Display, figure_bytes
from reid_vpr_eval.report.images import Images
from reid_vpr_eval.report.inline import inline_svg
from reid_vpr_eval.report.pictures import CHOICES, Choice, Strip, Strips, choose_queries
from reid_vpr_eval.report.queries import PICTURE_BUDGET, ROWS, QueryTable, query_table, worst_rows
from reid_vpr_eval.report.sentences import Answer, answers, paper_line, rule_sentence
from reid_vpr_eval.report.sweeps import Sweep, sweep_of
from reid_vpr_eval.report.tables import (
    CountRow,
    MetricRow,
    RuleRow,
    count_rows,
    headline,
    metric_rows,
    rule_rows,
)
from reid_vpr_eval.result import Result
from reid_vpr_eval.studies.conventions import conventions

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PictureOptions", "Section", "section_of"]

#: Near misses that a page lists; all are in a file beside it.
_NEAR = 20
_CHOICES = {
    "worst": ("Worst queries", "Where the most is to be gained; sorted by {order}, worst first. "
              "This is not the average quality."),
    "mistakes": ("Most confident mistakes", "The first item is wrong, and its score is better "
                 "than that of other wrong first items; sorted by this score, best first."),
    "random": ("Random queries", "Drawn with seed {seed}, in the order of the draw: what to "
               "expect of any query."),
    "best": ("Best queries", "What works; sorted by {order}, best first."),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureOptions:
    """What picture lists and the table of queries show.

    Parameters
    ----------
    rows : int
        Rows of the table of queries, the worst ones.
    n : int
        Queries of each picture list.
    top_k : int
        Items of each query.
    choices : sequence of {"worst", "mistakes", "random", "best"}
        Which picture lists.
    seed : int
        Of the random choice.
    only_wrong : bool
        Leave out queries whose first item is right.
    thumbnails : Path, optional
        A folder that keeps thumbnails, so that they are made once.
    """

    rows: int = ROWS
    n: int = 5
    top_k: int = 10
    choices: Sequence[Choice] = CHOICES
    seed: int = 0
    only_wrong: bool = False
    thumbnails: Path | None = None


@dataclass(frozen=True, slots=True)
class PictureList:
    """Strips under a heading."""

    title: str
    note: str
    strips: list[Strip]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One result as the template needs it."""

    anchor: str
    title: str
    result: Result
    headline: list[tuple[str, str, str]]
    quote: str
    answers: list[Answer]
    metrics: list[MetricRow]
    counts: list[CountRow]
    figures: list[Figure]
    map: Figure | None
    near: list[tuple[str, str, str]]
    tables: tuple[str, ...]
    skipped: Mapping[str, str]
    pictures: list[PictureList]
    portrait: bool
    pictures_hint: str
    queries: QueryTable
    rules: list[RuleRow]
    rules_hint: str
    rule: str
    toml: str
    sweep: Sweep | None = None
    sweep_figure: Figure | None = None
    sweep_hint: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def how(self) -> list[str]:
        """How the intervals were made, or why there are none: each thing once."""
        return list(dict.fromkeys(row.how for row in self.metrics))


def section_of(
    number: int,
    result: Result,
    title: str,
    images: Images | None,
    group: tuple[Group, int],
    options: PictureOptions,
    *,
    hint: str = "",
    share: int = 1,
    run: Path | None = None,
) -> Section:
    """Gather what a page says of one result, which stands at a place in a group.

    `hint` says why there are no images; `share` sections divide the room for pictures; `run`
    is the folder of a saved run, whose sweep.csv is shown.
    """
    rules, rules_hint = _rules(result)
    pictures, queries, said = _found(result, images, options, share)
    figures = group[0].own(group[1])
    mapped = FailureMapDisplay.kind_name
    drawn_map = next((one for one in figures if one.name.split("-")[0] == mapped), None)
    sweep, sweep_hint = sweep_of(result, None if run is None else run / "sweep.csv")
    environment = result.environment
    versions = {"Python": str(environment.get("python", "")),
                **dict(sorted(environment.get("versions", {}).items()))}  # fmt: skip
    return Section(
        anchor=f"r{number + 1}-{re.sub('[^a-z0-9-]', '-', result.protocol.name)}",
        title=title,
        result=result,
        headline=headline(result),
        quote=paper_line(result),
        answers=answers(result, rules, sweep_hint if sweep is None else sweep.told),
        metrics=metric_rows(result),
        counts=count_rows(result),
        figures=[one for one in figures if one is not drawn_map],
        map=drawn_map,
        near=_near(result),
        tables=group[0].tables,
        skipped=group[0].skipped if len(group[0].rows) == 1 else {},
        pictures=pictures,
        portrait=_upright(pictures),
        pictures_hint=hint or said,
        queries=queries,
        rules=[] if rules is None else rule_rows(rules),
        rules_hint=rules_hint,
        rule=rule_sentence(result),
        toml=result.protocol.to_toml(),
        sweep=sweep,
        sweep_figure=None if sweep is None else _drawn(sweep.display, f"s{number + 1}-sweep"),
        sweep_hint=sweep_hint,
        versions={name: text for name, text in versions.items() if text},
    )


def _drawn(display: Display, name: str) -> Figure:
    """Draw what stands on the page alone, without files."""
    drawn = display.plot().figure_
    assert drawn is not None  # noqa: S101 (it was drawn)
    svg = inline_svg(figure_bytes(drawn, "svg"), name, display.spoken())
    return Figure(name, svg, display.caption, ())


def _near(result: Result) -> list[tuple[str, str, str]]:
    """Return the first near misses: the query, what was found, and the metres between."""
    missed = None
    if len(result.per_query) and "top1_error_m" in result.per_query:
        missed = near_misses(result.protocol, result.per_query)
    if missed is None:
        return []
    return [(str(query), str(item), f"{float(metres):.1f}")
            for query, item, metres in missed.head(_NEAR).itertuples(index=False)]  # fmt: skip


def _rules(result: Result) -> tuple[pd.DataFrame | None, str]:
    """Return what other tools' rules make of a result, or why that is not known."""
    try:
        return conventions(result), ""
    except ReidVprEvalError as error:
        return None, f"Not known: {error}."


def _found(
    result: Result, images: Images | None, options: PictureOptions, share: int
) -> tuple[list[PictureList], QueryTable, str]:
    """Return picture lists, the table of queries, and what has to be said of pictures."""
    if result.rankings is None or not len(result.per_query):
        said = "" if images is None else (
            "The run holds no top-k lists: evaluate with --top-k 10 (top_k=10) to see what was "
            "ranked first."
        )  # fmt: skip
        return [], query_table(result, options.rows), said
    chosen = {
        which: choose_queries(result, which, options.n, seed=options.seed,
                              only_wrong=options.only_wrong)
        for which in options.choices
    } if images is not None else {}  # fmt: skip
    worst = worst_rows(result, options.rows)
    wanted = [*worst, *(row for rows in chosen.values() for row in rows)]
    strips = Strips(result, images, wanted, options.top_k, options.thumbnails)
    lists = [
        _picture_list(result, which, [strips.strip(row) for row in rows], options)
        for which, rows in chosen.items()
        if rows
    ]
    table = query_table(result, options.rows, strips, PICTURE_BUDGET // share)
    asked, there = strips.n_pictures
    of = f"of {counted(asked, 'picture', form=',')}"
    said = "" if asked == there else (
        counted(asked - there, f"{of} is", f"{of} are", form=",")
        + " missing or cannot be read; the places are marked."
    )  # fmt: skip
    return lists, table, said


def _picture_list(
    result: Result, which: Choice, strips: list[Strip], options: PictureOptions
) -> PictureList:
    title, note = _CHOICES[which]
    places = result.protocol.relevance.kind == "within"
    by_rank = places or bool(result.per_query["ap"].isna().all())
    order = "the rank of the first positive" if by_rank else "average precision"
    if options.only_wrong:
        note += " Only queries whose first item is wrong."
    return PictureList(title, note.format(order=order, seed=options.seed), strips)


def _upright(lists: list[PictureList]) -> bool:
    """Whether most pictures are higher than wide."""
    tiles = [t for one in lists for strip in one.strips for t in (strip.query, *strip.ranked)]
    known = [tile.picture for tile in tiles if tile.picture is not None]
    return 2 * sum(picture.height > 1.2 * picture.width for picture in known) > len(known)
