"""How often intervals hold the true value: ``python -m benchmarks.coverage``.

Clustered queries are generated again and again from worlds whose true value is known. Counted
is how often the default interval holds it, and how often one that takes queries for
independent does. Written are coverage.json, coverage.svg and coverage.md.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import signal, special

from reid_vpr_eval.report.figures.style import SERIES, figure_bytes
from reid_vpr_eval.uncertainty import Clusters, Interval, block_length, wilson
from reid_vpr_eval.uncertainty.methods import Choice, Measure, intervals
from reid_vpr_eval.uncertainty.sums import Sums

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
World = Callable[[np.random.Generator], tuple[Floats, Ints]]

SEED = 20_240
LEVEL = 0.95
BAND = (0.93, 0.97)


@dataclass(frozen=True, slots=True)
class Case:
    """A world with its true value: values of queries and the unit of each."""

    name: str
    world: World
    true: float
    repetitions: int = 500
    is_proportion: bool = True
    along: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """Shares of repetitions in which an interval held the true value, and what it was."""

    name: str
    repetitions: int
    methods: dict[str, int]
    default: float
    below: float
    above: float
    naive: float
    wald: float
    width: float
    naive_width: float


def rates(n_units: int, size: int, true: float, alike: float, *, even: bool = True) -> World:
    """Rights and wrongs: each unit has its own rate, beta distributed (beta-binomial).

    `alike` is the correlation of two queries of a unit; sizes vary unless they are `even`.
    """
    both = 1 / alike - 1

    def world(rng: np.random.Generator) -> tuple[Floats, Ints]:
        rate = rng.beta(true * both, (1 - true) * both, n_units)
        unit = np.repeat(np.arange(n_units), _sizes(rng, n_units, size, even))
        return (rng.random(len(unit)) < rate[unit]).astype(np.float64), unit

    return world


def shared(n_units: int, size: int, true: float, alike: float) -> World:
    """Rights and wrongs of which some are those of the whole unit, the rest by themselves."""

    def world(rng: np.random.Generator) -> tuple[Floats, Ints]:
        unit = np.repeat(np.arange(n_units), size)
        common, own = rng.random(n_units) < true, rng.random(len(unit)) < true
        joins = rng.random(len(unit)) < math.sqrt(alike)
        return np.where(joins, common[unit], own).astype(np.float64), unit

    return world


def precisions(n_units: int, size: int, true: float, units: float, queries: float) -> World:
    """Skewed values in [0, 1], like average precisions; beta between and within units."""

    def world(rng: np.random.Generator) -> tuple[Floats, Ints]:
        mean = np.clip(rng.beta(true * units, (1 - true) * units, n_units), 1e-6, 1 - 1e-6)
        unit = np.repeat(np.arange(n_units), _sizes(rng, n_units, size, False))
        return rng.beta(mean[unit] * queries, (1 - mean[unit]) * queries), unit

    return world


def along(n: int, memory: float, true: float) -> World:
    """Rights and wrongs along a way: a normal series of first order, cut at a threshold."""
    limit = special.ndtri(true)

    def world(rng: np.random.Generator) -> tuple[Floats, Ints]:
        noise = rng.normal(size=n + 1000) * math.sqrt(1 - memory**2)
        series = signal.lfilter([1.0], [1.0, -memory], noise)[1000:]
        return (series < limit).astype(np.float64), np.arange(n)

    return world


def _sizes(rng: np.random.Generator, n_units: int, size: int, even: bool) -> Ints:
    sizes = np.full(n_units, size) if even else 1 + rng.poisson(size - 1, n_units)
    return sizes.astype(np.int64)


def cases(few: int, many: int) -> list[Case]:
    """Return the worlds, few units with so many repetitions and the others with so many."""
    alone = np.arange(500)
    return [
        Case("35 places of 9, rate .95, alike .1", rates(35, 9, 0.95, 0.1), 0.95, few),
        Case("35 places of 9, rate .95, alike .2", rates(35, 9, 0.95, 0.2), 0.95, few),
        Case("the same, .1, outcomes shared", shared(35, 9, 0.95, 0.1), 0.95, few),
        Case("the same, .2, outcomes shared", shared(35, 9, 0.95, 0.2), 0.95, few),
        Case("10 places of 9, rate .8, alike .2", rates(10, 9, 0.8, 0.2), 0.8, many),
        Case("35 places of 9, rate .99, alike .1", rates(35, 9, 0.99, 0.1), 0.99, many),
        Case("150 identities of about 5, rate .95, alike .1",
             rates(150, 5, 0.95, 0.1, even=False), 0.95, many),
        Case("300 identities of about 5, rate .6, alike .2",
             rates(300, 5, 0.6, 0.2, even=False), 0.6, many),
        Case("300 identities of about 5, rate .98, alike .2",
             rates(300, 5, 0.98, 0.2, even=False), 0.98, many),
        Case("750 identities of about 4, rate .96, alike .3",
             rates(750, 4, 0.96, 0.3, even=False), 0.96, many),
        Case("10 classes of about 10, AP .85", precisions(10, 10, 0.85, 3, 2), 0.85, many, False),
        Case("20 classes of about 25, AP .73", precisions(20, 25, 0.73, 3, 3), 0.73, many, False),
        Case("35 places of about 9, AP .93", precisions(35, 9, 0.93, 2, 1.5), 0.93, many, False),
        Case("150 identities of about 5, AP .85", precisions(150, 5, 0.85, 3, 2), 0.85, many,
             False),
        Case("750 identities of about 4, AP .3", precisions(750, 4, 0.3, 3, 2), 0.3, many, False),
        Case("500 queries alone, rate .95",
             lambda rng: ((rng.random(500) < 0.95).astype(np.float64), alone), 0.95, many),
        Case("500 queries alone, AP .85",
             lambda rng: (rng.beta(1.7, 0.3, 500), alone), 0.85, many, False),
        Case("2,760 frames along a way, rate .9, memory .9", along(2760, 0.9, 0.9), 0.9, many,
             along=True),
        Case("5,000 frames along a way, rate .7, memory .95", along(5000, 0.95, 0.7), 0.7, many,
             along=True),
    ]  # fmt: skip


def measure(case: Case) -> Found:
    """Generate a world again and again and count what holds the true value."""
    rng = np.random.default_rng([SEED, len(case.name), case.repetitions])
    drawn = [case.world(rng) for _ in range(case.repetitions)]
    measures = {str(i): _measure(case, *one) for i, one in enumerate(drawn)}
    made = [one for one in intervals(measures, Choice(level=LEVEL)).values()
            if isinstance(one, Interval)]  # fmt: skip
    if len(made) < case.repetitions:
        raise ValueError(f"{case.name}: some repetitions have no interval")
    plain = [_naive(case, values) for values, _ in drawn]
    wald = [_wald(values) for values, _ in drawn]
    true = case.true
    return Found(
        name=case.name,
        repetitions=case.repetitions,
        methods={m: sum(one.method == m for one in made) for m in {one.method for one in made}},
        default=_share([one.low <= true <= one.high for one in made]),
        below=_share([one.high < true for one in made]),
        above=_share([one.low > true for one in made]),
        naive=_share([low <= true <= high for low, high in plain]),
        wald=_share([low <= true <= high for low, high in wald]),
        width=float(np.mean([one.high - one.low for one in made])),
        naive_width=float(np.mean([high - low for low, high in plain])),
    )


def _measure(case: Case, values: Floats, unit: Ints) -> Measure:
    if not case.along:
        return Measure(Sums.of(Clusters.of(unit), [values]), is_proportion=case.is_proportion)
    length = block_length(values)
    sums = Sums.of(Clusters.of(unit // length), [values])
    return Measure(sums, is_proportion=True, way=(values, np.ones(len(values)), length))


def _naive(case: Case, values: Floats) -> tuple[float, float]:
    return wilson(float(values.mean()), len(values)) if case.is_proportion else _wald(values)


def _wald(values: Floats) -> tuple[float, float]:
    reach = 1.959964 * float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(values.mean()) - reach, float(values.mean()) + reach


def _share(held: list[bool]) -> float:
    return float(np.mean(held))


def table(found: list[Found]) -> str:
    """Return the coverage as a Markdown table, percent."""
    rows = [
        "| queries | repetitions | method | **default** | true value below / above | width | "
        "queries taken for independent | Wald | width |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        methods = ", ".join(sorted(one.methods, key=lambda m: -one.methods[m]))
        rows.append(
            f"| {one.name} | {one.repetitions:,} | {methods} | **{100 * one.default:.1f}** | "
            f"{100 * one.above:.1f} / {100 * one.below:.1f} | {100 * one.width:.1f} | "
            f"{100 * one.naive:.1f} | {100 * one.wald:.1f} | {100 * one.naive_width:.1f} |"
        )
    return "\n".join(rows)


def figure(found: list[Found]) -> Figure:
    """Draw how often intervals hold, a line a world."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(8.6, 0.3 * len(found) + 1.2), layout="constrained")
    axes = drawn.add_subplot()
    place = np.arange(len(found))[::-1]
    axes.axvspan(100 * BAND[0], 100 * BAND[1], color="0.88", linewidth=0, label="93 to 97 %")
    axes.axvline(100 * LEVEL, color="0.6", linewidth=0.8)
    for name, marker, colour, face, values in (
        ("by unit, the default", "o", SERIES[0], SERIES[0], [one.default for one in found]),
        ("queries taken for independent", "D", SERIES[1], "white", [one.naive for one in found]),
    ):
        axes.plot(100 * np.array(values), place, marker, color=colour, label=name,
                  markerfacecolor=face)  # fmt: skip
    axes.set_yticks(place, [one.name for one in found])
    axes.set_xlabel("how often a 95 % interval holds the true value, percent")
    axes.set_xlim(100 * min(one.naive for one in found) - 2, 100.5)
    axes.spines[["top", "right"]].set_visible(False)
    drawn.legend(loc="outside upper right", ncols=3, frameon=False)
    return drawn


def main() -> None:
    """Measure all worlds and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    parser.add_argument("--few", type=int, default=4000, help="repetitions, 35 places of 9")
    parser.add_argument("--many", type=int, default=500, help="repetitions of the other worlds")
    given = parser.parse_args()
    found = []
    for case in cases(given.few, given.many):
        found.append(measure(case))
        print(table(found[-1:]).splitlines()[-1], flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    rows = [{name: getattr(one, name) for name in Found.__dataclass_fields__} for one in found]
    (given.out / "coverage.json").write_text(json.dumps(rows, indent=1) + "\n")
    (given.out / "coverage.md").write_text(table(found) + "\n")
    for suffix in ("svg", "png"):
        (given.out / f"coverage.{suffix}").write_bytes(figure_bytes(figure(found), suffix))


if __name__ == "__main__":
    main()
