"""Metrics as named values: one grammar from text to metric and back, and the registry.

``NAME[@k][(option=value, ...)]``, where k is a number or a percentage of the gallery.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError, ProtocolError
from reid_vpr_eval.metrics.views import View

__all__ = ["METRICS", "Metric", "MetricName", "metric", "parse"]

Floats: TypeAlias = npt.NDArray[np.float64]
#: The per-query values of a metric, from a view, the cut-off (or None) and the options.
Function: TypeAlias = Callable[..., Floats]

_NAME = r"(?P<name>[A-Za-z][\w-]*(?:@[A-Za-z]\w*)?)"
_TEXT = re.compile(rf"^\s*{_NAME}(?:@(?P<k>\d+(?:\.\d+)?%?))?\s*(?:\((?P<options>.*)\))?\s*$")
_DASHED = re.compile(r"^\s*(?P<name>rank)-?(?P<k>\d+)\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Metric:
    """What a metric declares of itself.

    `cutoff`: whether ``@k`` must, may or must not be given. `options`: the words each option
    takes, its default first. `direction`: what is better. `monotone`: how an added negative
    moves it. `is_rank`: a rank, not a share. `aggregate`: how values become one number.
    """

    name: str
    function: Function
    reference: str
    cutoff: Literal["no", "may", "must"] = "no"
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    direction: Literal["up", "down"] = "up"
    monotone: Literal["up", "down", "none"] = "down"
    is_rank: bool = False
    aggregate: Literal["mean", "median"] = "mean"
    spellings: tuple[str, ...] = ()

    @property
    def doc(self) -> str:
        """The first line of the definition."""
        return (self.function.__doc__ or "").strip().split("\n", maxsplit=1)[0]


#: All metrics by name.
METRICS: dict[str, Metric] = {}
_SPELLINGS: dict[str, str] = {}


def metric(
    name: str,
    *,
    reference: str,
    cutoff: Literal["no", "may", "must"] = "no",
    options: Mapping[str, tuple[str, ...]] | None = None,
    direction: Literal["up", "down"] = "up",
    monotone: Literal["up", "down", "none"] = "down",
    is_rank: bool = False,
    aggregate: Literal["mean", "median"] = "mean",
    spellings: tuple[str, ...] = (),
) -> Callable[[Function], Function]:
    """Register the function below as a metric."""

    def register(function: Function) -> Function:
        entry = Metric(
            name, function, reference, cutoff, options or {}, direction, monotone, is_rank,
            aggregate, spellings,
        )  # fmt: skip
        for word in (name, *spellings):
            if word.lower() in _SPELLINGS:
                raise ProtocolError(f"the metric name {word!r} is taken")
            _SPELLINGS[word.lower()] = name
        METRICS[name] = entry
        return function

    return register


@dataclass(frozen=True, slots=True, order=True)
class MetricName:
    """A metric with its cut-off and options; prints as its canonical text.

    >>> str(parse("Rank-5")), str(parse("mAP(rule=rectangle)")), str(parse("R@1%"))
    ('CMC@5', 'mAP', 'CMC@1%')
    """

    name: str
    k: str = ""
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        cut = f"@{self.k}" if self.k else ""
        listed = ", ".join(f"{key}={value}" for key, value in self.options)
        return f"{self.name}{cut}" + (f"({listed})" if listed else "")

    @property
    def metric(self) -> Metric:
        """The registered metric."""
        return METRICS[self.name]

    def cut(self, n_ranked: int) -> int | None:
        """Return the cut-off as a number of items; a percentage is one of the gallery."""
        if not self.k:
            return None
        if self.k.endswith("%"):
            return max(round(n_ranked * float(self.k[:-1]) / 100), 1)
        return int(self.k)

    def values(self, view: View, n_ranked: int) -> Floats:
        """Return the value of each query under a view, an array of length n_query."""
        every = {key: words[0] for key, words in self.metric.options.items()}
        k = self.cut(n_ranked)
        arguments = {**every, **dict(self.options)}
        if self.metric.cutoff == "no":
            return self.metric.function(view, **arguments)
        return self.metric.function(view, k, **arguments)


def parse(text: str | MetricName) -> MetricName:
    """Read a metric's name in any accepted spelling.

    Raises
    ------
    ProtocolError
        If the name is unknown or ambiguous, the cut-off is absent or out of place, or an
        option is unknown; says what is accepted.
    """
    if isinstance(text, MetricName):
        return text
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
    _check_cut(text, entry, k)
    return MetricName(entry.name, _plain(k), _options(text, entry, parts.get("options") or ""))


def _plain(k: str) -> str:
    if k.endswith("%"):
        return f"{float(k[:-1]):g}%"
    return str(int(k)) if k else ""


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
        if key not in entry.options:
            known = ", ".join(sorted(entry.options)) or "none"
            raise ProtocolError(f"{text!r}: {entry.name} has no option {key!r}; it has: {known}")
        if value not in entry.options[key]:
            words = ", ".join(entry.options[key])
            raise ProtocolError(f"{text!r}: {key} = {value!r}; one of {words} is needed")
        if value != entry.options[key][0]:
            chosen[key] = value
    return tuple(sorted(chosen.items()))


def refuse_unknown_ties(ties: str, known: tuple[str, ...]) -> None:
    """Refuse a tie policy that does not exist."""
    if ties not in known:
        raise NotCountedError(f"ties = {ties!r}: one of {', '.join(known)} is needed")
