"""Hard pools of sweeps: the hardest distractors first, own strata, what each stratum costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reid_vpr_eval.errors import FormatError, NotCountedError, name_some
from reid_vpr_eval.result import Result
from reid_vpr_eval.studies.distractors.hard import envelope, hurt_by_stratum, within_own_strata
from reid_vpr_eval.sweeps import SweepOptions, Swept, parts_of, sweep_ranking, units_in

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["hardest_first", "hurt_table", "hurt_text", "own_strata"]


def hardest_first(swept: Swept, options: SweepOptions) -> Swept:
    """Return the curve of a sweep with each query's hardest distractors first."""
    if options.unit != "items" or swept.ranking is None:
        raise NotCountedError("blocks have no order of their own: leave --hardest or --unit out")
    base, pool = parts_of(swept.ranking, options)
    exact = swept.curve[swept.curve["kind"] == "exact"]
    curve = envelope(
        swept.ranking, exact["size"].drop_duplicates().tolist(),
        exact["metric"].drop_duplicates().tolist(), base=base, pool=pool,
        no_positive=swept.no_positive, pool_positives=options.pool_positives,
    )  # fmt: skip
    name = f"{swept.name}, hardest first"
    return replace(
        swept, name=name, curve=curve, heading="each query's hardest distractors first: no draw "
        "does worse", details={**swept.details, "name": name, "order": "hardest"},
    )  # fmt: skip


def own_strata(source: Path, column: str, options: SweepOptions, *, name: str = "") -> Swept:
    """Sweep a saved run on distractors that share a column's value with their query.

    Raises
    ------
    NotCountedError
        If the run has no such column of queries, or was not counted by its values.
    FormatError
        If only counts are given, which do not know the queries' columns.
    """
    if source.is_file():
        raise FormatError(
            f"{source} holds counts alone, and --own {column} needs the queries' values: name the "
            "run folder, which has them in per_query.csv"
        )
    result = Result.load(source)
    if result.ranking is None:
        raise NotCountedError(f"{source} holds no ranking.npz: evaluate again with counts kept")
    if column not in result.per_query:
        raise NotCountedError(
            f"{source}: per_query.csv has no column {column!r}; it has "
            f"{name_some(result.per_query.columns, 30)}"
        )
    values = result.per_query[column].tolist()
    if options.pool not in ("", "negatives") or options.base not in ("", "positives"):
        raise NotCountedError("--own draws from each query's own negatives: leave --pool and "
                              "--base out")  # fmt: skip
    wanted = replace(options, pool="negatives", base="positives")
    return sweep_ranking(within_own_strata(result.ranking, values), result.protocol,
                         units_in(result), wanted,
                         f"{name or source.name}, own {column}")  # fmt: skip


def hurt_table(swept: Sequence[Swept], options: SweepOptions) -> pd.DataFrame:
    """Return what an added item of each stratum costs, for several models."""
    import pandas as pd

    tables = []
    for one in swept:
        assert one.ranking is not None  # noqa: S101 (of a sweep just made)
        base, pool = parts_of(one.ranking, options)
        metrics = one.curve["metric"].drop_duplicates().tolist()
        found = hurt_by_stratum(one.ranking, metrics, base=base, pool=pool,
                                no_positive=one.no_positive,
                                pool_positives=options.pool_positives)  # fmt: skip
        found.insert(0, "model", one.name)
        tables.append(found)
    return pd.concat(tables, ignore_index=True)


def hurt_text(table: pd.DataFrame) -> str:
    """Return the table as a person reads it: points lost for each thousand added items.

    >>> import pandas as pd
    >>> row = ("osnet", "camera 3", 500, "mAP", 1e-4, 5e-5, 2e-5)
    >>> columns = ["model", "stratum", "rows", "metric", "first", "each", "last"]
    >>> print(hurt_text(pd.DataFrame([row], columns=columns)))
    what added items of each stratum cost: loss for each 1,000 items (points; ranks as they are)
    model  metric  stratum   rows  first one    all   last
    osnet  mAP     camera 3   500     10.000  5.000  2.000
    first one: one at random to the base; all: the stratum to the base; last: to all the others
    """
    from reid_vpr_eval.metrics import parse

    lines: list[Any] = [("model", "metric", "stratum", "rows", "first one", "all", "last")]
    for row in table.itertuples():
        factor = 1e3 if parse(str(row.metric)).metric.is_rank else 1e5
        cells = [f"{factor * float(value):.3f}" for value in (row.first, row.each, row.last)]  # type: ignore[arg-type]
        lines.append((row.model, row.metric, row.stratum, f"{row.rows:,}", *cells))
    widths = [max(len(str(line[i])) for line in lines) for i in range(7)]
    shown = ["  ".join(str(cell).ljust(width) if i < 3 else str(cell).rjust(width)
                       for i, (cell, width) in enumerate(zip(line, widths, strict=True))).rstrip()
             for line in lines]  # fmt: skip
    return "\n".join([
        "what added items of each stratum cost: loss for each 1,000 items (points; ranks as they "
        "are)",
        *shown,
        "first one: one at random to the base; all: the stratum to the base; last: to all the "
        "others",
    ])  # fmt: skip
