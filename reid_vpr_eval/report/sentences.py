"""What a report says in whole sentences: who is right, and the five questions of a reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import counted
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.places import NEAR_MISS
from reid_vpr_eval.report.intervals import interval_of, interval_text, why_none
from reid_vpr_eval.report.pictures import is_wrong
from reid_vpr_eval.report.text import reported
from reid_vpr_eval.result import Result
from reid_vpr_eval.summary import shown, spelled

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Answer", "answers", "main_metrics", "paper_line", "rule_sentence"]

#: The fewest queries of a group that is called the hardest one.
_GROUP = 5


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a question of a reader, and the part of the page that says more."""

    question: str
    text: str
    part: str


def main_metrics(result: Result, n: int = 4) -> list[str]:
    """Return the first few metrics without options, as the protocol reports them."""
    return [name for name in reported(result) if not parse(name).options][:n]


def paper_line(result: Result) -> str:
    """Return the one line that a paper would quote, with what it was computed on."""
    protocol, counts = result.protocol, result.counts
    parts, how = [], ""
    for name in main_metrics(result):
        found = interval_of(result, name)
        text = f"{spelled(name, protocol)} {shown(name, result.metrics[name])}"
        if found is not None:
            text += f" {interval_text(name, found)}"
            how = how or f" ({found.described})"
        parts.append(text)
    return (
        f"{', '.join(parts)}{how}; {counted(counts['n_evaluated'], 'query', form=',')}, "
        f"{counted(counts['n_gallery_ranked'], 'gallery item', form=',')}; {protocol.name} "
        f"v{protocol.version}, judged by {protocol.judging_hash[:12]}"
    )


def answers(result: Result, rules: pd.DataFrame | None, larger: str) -> list[Answer]:
    """Answer what a newcomer asks of a result.

    Parameters
    ----------
    result : Result
    rules : pandas.DataFrame or None
        The table of :func:`reid_vpr_eval.studies.conventions.conventions`.
    larger : str
        What is known of other galleries, or why nothing is.
    """
    return [
        Answer("How good is it?", _how_good(result), "metrics"),
        Answer("How sure is that?", _how_sure(result), "metrics"),
        Answer("Compared with what?", _compared(result, rules), "rules"),
        Answer("Where does it fail?", _fails(result), "pictures"),
        Answer("What would it be in a larger gallery?", larger, "sweep"),
    ]


def _how_good(result: Result) -> str:
    n = result.counts["n_evaluated"]
    wanted = [name for name in reported(result) if parse(name).name == "CMC"
              and parse(name).k == "1" and not parse(name).options]  # fmt: skip
    text = ", ".join(
        f"{spelled(name, result.protocol)} {shown(name, result.metrics[name])}"
        for name in main_metrics(result)
    )
    if not wanted:
        return f"{text}, over {counted(n, 'query', form=',')}."
    share = 100 * result.metrics[wanted[0]]
    return f"{text}. Of 100 queries, {share:.0f} have a right first item."


def _how_sure(result: Result) -> str:
    names = main_metrics(result, 1)
    found = interval_of(result, names[0]) if names else None
    if found is None:
        why = why_none(result, names[0]) if names else "nothing is reported"
        return f"There is no interval: {why}."
    other_units = "" if found.unit in ("query", "") else (
        "Queries of one unit succeed and fail together, so units are resampled, not queries. "
    )  # fmt: skip
    return (
        f"{spelled(names[0], result.protocol)} {interval_text(names[0], found)} "
        f"({found.described}): other queries of the same kind, against the same gallery, would "
        f"move it that far. {other_units}Another training run may move it more."
    )


def _compared(result: Result, rules: pd.DataFrame | None) -> str:
    parts = []
    names = main_metrics(result, 1)
    for name in names:
        if name in result.chance:
            parts.append(f"a ranking without information has {spelled(name, result.protocol)} "
                         f"{shown(name, result.chance[name])}")  # fmt: skip
    ceiling = result.counts["ceiling"]
    lone = result.counts["n_no_positive"]
    if ceiling < 1:
        nothing = f"{counted(lone, 'query has', 'queries have', form=',')} nothing to find"
        parts.append(f"no method can have a hit rate above {100 * ceiling:.1f}, as {nothing}")
    if rules is not None and names:
        parts += _range_of_rules(result, rules, names[0])
    expected = [v for v in result.protocol.expected.model_dump().values() if v is not None]
    if not expected:
        parts.append("this protocol has no published counts, so published numbers are of other "
                     "data")  # fmt: skip
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _range_of_rules(result: Result, rules: pd.DataFrame, name: str) -> list[str]:
    """Say how far the rules of other tools move a number."""
    own = parse(name)
    values = [
        float(value) for metric, value in zip(rules["metric"], rules["value"], strict=True)
        if metric and value is not None and value == value
        and (parse(metric).name, parse(metric).k) == (own.name, own.k)
    ]  # fmt: skip
    if not values:
        return []
    low, high = (shown(name, value) for value in (min(values), max(values)))
    called = spelled(name, result.protocol)
    if low == high:
        return [f"by the rules of other tools {called} is {low} too"]
    return [f"by the rules of other tools the same ranking has {called} {low} to {high}"]


def _fails(result: Result) -> str:
    table = result.per_query
    if not len(table):
        return "The run holds no table of queries, so single failures are not known."
    wrong = is_wrong(result)
    if not wrong.any():
        return "Nowhere at the first rank: the first item of every query is right."
    lone = int((table["n_positive"] == 0).sum())
    of = f"of {counted(len(table), 'query', form=',')}"
    text = counted(int(wrong.sum()), f"{of} has", f"{of} have", form=",") + " a wrong first item"
    text += f" ({counted(lone, 'has', 'have', form=',')} nothing to find)." if lone else "."
    return " ".join([text, *_near_misses(result), *_hardest(table, wrong)])


def _near_misses(result: Result) -> list[str]:
    """Say how far wrong first items are, where places are judged by distance."""
    rule: Any = result.protocol.relevance
    if rule.kind != "within" or "top1_error_m" not in result.per_query:
        return []
    metres = result.per_query["top1_error_m"].to_numpy(float)[is_wrong(result)]
    metres = metres[~np.isnan(metres)]
    if not len(metres):
        return []
    radius = float(_first(rule.radius))
    near = int(((metres > radius) & (metres <= radius + NEAR_MISS)).sum())
    misses = counted(near, "is a near miss", "are near misses", form=",")
    return [f"Half of the wrong first items are within {np.median(metres):,.0f} m; {misses}, "
            f"{radius:g} to {radius + NEAR_MISS:g} m."]  # fmt: skip


def _hardest(table: pd.DataFrame, wrong: npt.NDArray[np.bool_]) -> list[str]:
    """Name the camera whose queries fail most often, if there are several."""
    if "camera" not in table:
        return []
    cameras, of = np.unique(table["camera"].astype(str).to_numpy(str), return_inverse=True)
    size = np.bincount(of)
    share = np.bincount(of, weights=wrong) / size
    known = np.flatnonzero(size >= _GROUP)
    if len(known) < 2:
        return []
    worst = known[np.argmax(share[known])]
    return [f"Queries of camera {cameras[worst]} fail most often: {100 * share[worst]:.0f} % of "
            f"{size[worst]:,}."]  # fmt: skip


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) else value


def _within(rule: Any) -> str:
    edge = "up to and including" if rule.inclusive else "nearer than"
    text = f"An item is right if it was taken {edge} {_first(rule.radius):g} m from the query"
    if rule.heading is not None:
        text += f", looking in the same direction within {rule.heading:g} degrees"
    return text + "."


def _pose(rule: Any) -> str:
    edge = "less than" if rule.strict else "at most"
    turn = "" if rule.degrees is None else f" and {edge} {_first(rule.degrees):g} degrees"
    return f"An item is right if its camera stood {edge} {_first(rule.metres):g} m{turn} away."


def _frames(rule: Any) -> str:
    side = {"both": "before or after", "before": "before", "after": "after"}[rule.sided]
    unit = "frames" if rule.unit == "frame" else "places in the order of frames"
    return f"An item is right if it lies at most {rule.window} {unit} {side} the query."


def _nearest(rule: Any) -> str:
    return (
        f"An item is right if it is one of the {rule.k} nearest neighbours of the query "
        f"({rule.metric} distance, as given or computed from other features)."
    )


def _listed(rule: Any) -> str:
    return (
        "An item is right if the lists name it for the query "
        f"({', '.join(rule.positive)}; ignored: {', '.join(rule.ignored) or 'none'})."
    )


#: What is right, in a sentence, by the kind of rule; labels have one of their own.
_RULES: dict[str, Callable[[Any], str]] = {
    "within": _within, "pose": _pose, "frames": _frames, "nearest": _nearest, "listed": _listed,
}  # fmt: skip


def rule_sentence(result: Result) -> str:
    """Say in a sentence who is right."""
    rule: Any = result.protocol.relevance
    told = _RULES.get(rule.kind)
    if told is not None:
        return told(rule)
    text = f"An item is right if it has the query's {rule.label}"
    if rule.different:
        text += f" and another {' and another '.join(rule.different)}"
    if rule.same:
        text += f" and the same {' and the same '.join(rule.same)}"
    if rule.different or rule.same:
        what = "ignored" if rule.failing == "ignore" else "wrong"
        text += f"; of the same {rule.label} otherwise, it is {what}"
    return text + "."
