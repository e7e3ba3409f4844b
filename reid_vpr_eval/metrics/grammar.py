"""Metrics as named values: one grammar from text to metric and back, and the registry.

``NAME[@k][(option=value, ...)]``, where k is a number or a percentage of the gallery; some
metrics take a level instead, ``TAR@FAR=0.001``. Every metric takes ``radius=``, which reads it
at a further radius of the rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias

from reid_vpr_eval.errors import NotCountedError, ProtocolError

__all__ = ["METRICS", "Metric", "MetricName", "metric", "parse"]

#: From a view (or a pool, for metrics that are no means over queries), the cut-off or level
#: if the metric takes one, and the options: values of all queries, or one number.
Function: TypeAlias = Callable[..., Any]
Cutoff: TypeAlias = Literal["no", "may", "must", "level"]
Direction: TypeAlias = Literal["up", "down"]
Monotone: TypeAlias = Literal["up", "down", "none"]
Needs: TypeAlias = Literal["counts", "first item", "pairs"]
#: The words an option takes, its default first; or a function that reads any text.
Option: TypeAlias = tuple[str, ...] | Callable[[str], str]

_NAME = r"(?P<name>[A-Za-z][\w-]*(?:@[A-Za-z]\w*)?)"
_CUT = r"(?:@(?P<k>\d+(?:\.\d+)?%?)|=(?P<level>[\d.]+(?:[eE][+-]?\d+)?))?"
_TEXT = re.compile(rf"^\s*{_NAME}{_CUT}\s*(?:\((?P<options>.*)\))?\s*$")
_DASHED = re.compile(r"^\s*(?P<name>rank)-?(?P<k>\d+)\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Metric:
    """What a metric declares of itself.

    Attributes
    ----------
    name, formula, reference : str
        Its canonical name, the formula, and where it was published.
    function : callable
        The definition.
    cutoff : {"no", "may", "must", "level"}
        Whether ``@k`` must, may or must not be given, or ``=x`` must.
    options : mapping
        The words each option takes, its default first.
    direction, monotone : str
        What is better, and how an added negative moves it.
    needs : {"counts", "first item", "pairs"}
        What must have been counted.
    chance, ties : str
        Where the value of a random ranking comes from, and how equal scores are read.
    is_rank : bool
        A rank, not a share.
    aggregate : {"mean", "median", "pooled"}
        How values become one number; pooled ones are no means over queries.
    spellings : tuple of str
        Other accepted names.
    """

    name: str
    function: Function
    formula: str
    reference: str
    cutoff: Cutoff = "no"
    options: Mapping[str, Option] = field(default_factory=dict)
    direction: Direction = "up"
    monotone: Monotone = "down"
    needs: Needs = "counts"
    chance: str = "exact"
    ties: str = "exact mean over all orders; bounds; tie order"
    is_rank: bool = False
    aggregate: Literal["mean", "median", "pooled"] = "mean"
    spellings: tuple[str, ...] = ()

    @property
    def doc(self) -> str:
        """The first line of the definition."""
        return (self.function.__doc__ or "").strip().split("\n", maxsplit=1)[0]

    @property
    def defaults(self) -> dict[str, str]:
        """The default of each option."""
        return {
            key: words[0] if isinstance(words, tuple) else ""
            for key, words in self.options.items()
        }


#: All metrics by name.
METRICS: dict[str, Metric] = {}
_SPELLINGS: dict[str, str] = {}


def metric(name: str, **declared: Any) -> Callable[[Function], Function]:
    """Register the function below as a metric; the keywords are the fields of `Metric`."""

    def register(function: Function) -> Function:
        entry = Metric(name, function, **declared)
        for word in (name, *entry.spellings):
            if word.lower() in _SPELLINGS:
                raise ProtocolError(f"the metric name {word!r} is taken")
            _SPELLINGS[word.lower()] = name
        METRICS[name] = entry
        return function

    return register


@dataclass(frozen=True, slots=True, order=True)
class MetricName:
    """A metric with its cut-off (or level) and options; prints as its canonical text.

    >>> str(parse("Rank-5")), str(parse("mAP(rule=rectangle)")), str(parse("R@1%"))
    ('CMC@5', 'mAP', 'CMC@1%')
    >>> str(parse("TAR@FAR=1e-4"))
    'TAR@FAR=0.0001'
    """

    name: str
    k: str = ""
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        mark = "=" if self.metric.cutoff == "level" else "@"
        cut = f"{mark}{self.k}" if self.k else ""
        listed = ", ".join(f"{key}={value}" for key, value in self.options)
        return f"{self.name}{cut}" + (f"({listed})" if listed else "")

    @property
    def metric(self) -> Metric:
        """The registered metric."""
        return METRICS[self.name]

    @property
    def radius(self) -> float | None:
        """The further radius that the metric is read at, if it names one."""
        return float(dict(self.options)["radius"]) if "radius" in dict(self.options) else None

    @property
    def at_headline(self) -> MetricName:
        """The same metric at the headline radius."""
        kept = tuple((key, value) for key, value in self.options if key != "radius")
        return MetricName(self.name, self.k, kept)

    @property
    def monotone(self) -> Monotone:
        """How an added negative moves it; a divisor of hits can go either way."""
        moves = ("divisor", "hits") in self.options
        return "none" if moves else self.metric.monotone

    @property
    def every_option(self) -> dict[str, str]:
        """All options with their values, defaults included."""
        return {**self.metric.defaults, **dict(self.options)}

    def cut(self, n_ranked: int) -> int | float | None:
        """Return the cut-off as a number of items (a percentage is one of the gallery)."""
        if not self.k:
            return None
        if self.metric.cutoff == "level":
            return float(self.k)
        if self.k.endswith("%"):
            return max(round(n_ranked * float(self.k[:-1]) / 100), 1)
        return int(self.k)

    def apply(self, asked: object, n_ranked: int) -> Any:
        """Ask a view, or a pool, for this metric: values (n_query,), or one number."""
        if self.radius is not None:
            raise NotCountedError(
                f"{self} is of a further radius: evaluate() reads it, or grade the ranking by it "
                f"(ranking.regrade(relevance.at({self.radius:g}))) and ask for {self.at_headline}"
            )
        if self.metric.cutoff == "no":
            return self.metric.function(asked, **self.every_option)
        return self.metric.function(asked, self.cut(n_ranked), **self.every_option)


def parse(text: str | MetricName) -> MetricName:
    """Read a metric's name in any accepted spelling.

    Raises
    ------
    ProtocolError
        If the name is unknown or ambiguous, the cut-off is absent or out of place, or an
        option is unknown; says what is accepted.
    """
    return text if isinstance(text, MetricName) else _parsed(text)


@cache
def _parsed(text: str) -> MetricName:
    match = _DASHED.match(text) or _TEXT.match(text)
    if match is None:
        raise ProtocolError(f"{text!r} is no metric: NAME[@k][(option=value)] is needed")
    parts = match.groupdict()
    word, k = parts["name"], parts["k"] or ""
    if word.lower() == "recall":
        raise ProtocolError(
            f"{text!r} is ambiguous: write CMC@{k or 'k'} (also R@{k or 'k'}) for the share of "
            f"queries with a positive among the first k, or IR-recall@{k or 'k'} for the share of "
            "a query's positives among the first k"
        )
    if word.lower() not in _SPELLINGS:
        raise ProtocolError(f"{text!r}: no metric {word!r}; known: {', '.join(sorted(METRICS))}")
    entry = METRICS[_SPELLINGS[word.lower()]]
    level = parts.get("level") or ""
    if entry.cutoff == "level":
        k = _level(text, entry, k, level)
    elif level:
        raise ProtocolError(f"{text!r}: {entry.name} takes no level =x")
    else:
        _check_cut(text, entry, k)
        k = _plain(k)
    return MetricName(entry.name, k, _options(text, entry, parts.get("options") or ""))


def _plain(k: str) -> str:
    if k.endswith("%"):
        return f"{float(k[:-1]):g}%"
    return str(int(k)) if k else ""


def _level(text: str, entry: Metric, k: str, level: str) -> str:
    value = float(level) if level.count(".") <= 1 and level.strip(".") else math.nan
    if k or not 0 < value <= 1:
        raise ProtocolError(f"{text!r}: {entry.name} needs a level above 0 and up to 1, such as "
                            f"{entry.name}=0.01")  # fmt: skip
    return f"{value:g}"


def _check_cut(text: str, entry: Metric, k: str) -> None:
    if k and entry.cutoff == "no":
        raise ProtocolError(f"{text!r}: {entry.name} takes no cut-off @k")
    if not k and entry.cutoff == "must":
        raise ProtocolError(f"{text!r}: {entry.name} needs a cut-off, such as {entry.name}@5")
    if k and not k.endswith("%") and ("." in k or int(k) < 1):
        raise ProtocolError(f"{text!r}: the cut-off is a whole number from 1, or a percentage")
    if k.endswith("%") and not 0 < float(k[:-1]) <= 100:
        raise ProtocolError(f"{text!r}: a percentage lies above 0 and up to 100")


def _options(text: str, entry: Metric, listed: str) -> tuple[tuple[str, str], ...]:
    chosen: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in listed.split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or key in chosen:
            raise ProtocolError(f"{text!r}: options are written option=value, each once")
        if key == "radius":
            chosen[key] = _radius(text, value)
            continue
        if key not in entry.options:
            known = ", ".join(sorted(entry.options)) or "none"
            raise ProtocolError(f"{text!r}: {entry.name} has no option {key!r}; it has: {known}")
        words = entry.options[key]
        if callable(words):
            chosen[key] = words(value)
        elif value not in words:
            listed_words = ", ".join(words)
            raise ProtocolError(f"{text!r}: {key} = {value!r}; one of {listed_words} is needed")
        else:
            chosen[key] = value
    defaults = entry.defaults
    return tuple(sorted((k, v) for k, v in chosen.items() if v != defaults.get(k)))


def _radius(text: str, value: str) -> str:
    if not re.fullmatch(r"\d+(\.\d+)?", value) or float(value) == 0:
        raise ProtocolError(f"{text!r}: radius is a number of metres above 0")
    return f"{float(value):g}"
