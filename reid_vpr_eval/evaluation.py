"""The whole way: from a protocol, samples and scores to a result."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import (
    AlignmentError,
    EvaluationWarning,
    ProtocolError,
    RelevanceError,
)
from reid_vpr_eval.formats import SideSpec, apply_spec
from reid_vpr_eval.metrics import TIES, MetricValues, compute, parse
from reid_vpr_eval.metrics.compute import chance, exact_mean
from reid_vpr_eval.metrics.reading import Reading
from reid_vpr_eval.per_query import per_query_table, top_lists
from reid_vpr_eval.protocol import LabelRule, Protocol, WithinRule, load_protocol
from reid_vpr_eval.ranking import Ranking, rank
from reid_vpr_eval.relevance import Relevance, same_label, within_metres
from reid_vpr_eval.result import Result, curve_table
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings, RankedLists, Scores

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_counts", "counts_before", "evaluate", "evaluate_prepared", "judge", "prepare"]

Expected = Literal["enforce", "warn", "ignore"]

_K_MAX = 50
_PACKAGES = ("reid_vpr_eval", "numpy", "scipy", "pandas")
_KEPT_PAIRS = 20_000_000


def evaluate(
    protocol: str | Protocol,
    query: Samples | pd.DataFrame,
    gallery: Samples | pd.DataFrame,
    scores: Scores,
    *,
    expected: Expected = "enforce",
    keep_ranking: bool | Literal["auto"] = "auto",
    unretrieved: Literal["error", "zero"] = "error",
    missing_query: Literal["error", "zero", "skip"] = "error",
    **counting: Any,
) -> Result:
    """Evaluate scores by a protocol.

    Parameters
    ----------
    protocol : str or Protocol
        The name of a shipped protocol, the path of a file, or a protocol.
    query, gallery : Samples or pandas.DataFrame
        The two sides. One object for both sides without ids: its rows are their own ids,
        so that a query is recognised in the gallery.
    scores : Embeddings, ScoreMatrix or RankedLists
        Row i belongs to query row i, column or row j to gallery row j.
    expected : {"enforce", "warn", "ignore"}
        Whether counts that differ from the published ones stop the evaluation.
    keep_ranking : bool or "auto"
        Whether the result holds the counts; "auto": unless they are very many.
    unretrieved, missing_query
        For ranked lists, see :func:`compute`.
    **counting
        Every keyword of :func:`rank`; `strata` may name a gallery column and `tie_order`
        may be "id_desc".

    Returns
    -------
    Result

    Raises
    ------
    ProtocolError, AlignmentError, RelevanceError, FormatError, ScoreError
        If the input does not fit; before anything is scored.

    Examples
    --------
    >>> import reid_vpr_eval as rve
    >>> query = rve.Samples.from_columns(label=[1, 2], id=["a", "b"])
    >>> gallery = rve.Samples.from_columns(label=[1, 2, 2], id=["c", "d", "e"])
    >>> scores = rve.ScoreMatrix([[0.9, 0.1, 0.2], [0.8, 0.7, 0.9]], higher_is_better=True)
    >>> result = rve.evaluate("labels", query, gallery, scores)
    >>> round(result.metrics["mAP"], 4), result.metrics["R@1"]
    (0.9167, 1.0)
    """
    protocol = load_protocol(protocol) if isinstance(protocol, str) else protocol
    query, gallery, scores = prepare(protocol, query, gallery, scores)
    return evaluate_prepared(
        protocol, query, gallery, scores, expected=expected, keep_ranking=keep_ranking,
        unretrieved=unretrieved, missing_query=missing_query, **counting,
    )  # fmt: skip


def evaluate_prepared(
    protocol: Protocol,
    query: Samples,
    gallery: Samples,
    scores: Scores,
    *,
    expected: Expected = "enforce",
    keep_ranking: bool | Literal["auto"] = "auto",
    unretrieved: Literal["error", "zero"] = "error",
    missing_query: Literal["error", "zero", "skip"] = "error",
    **counting: Any,
) -> Result:
    """Evaluate two sides to which the protocol's columns, where and aliases were applied."""
    started = time.perf_counter()
    names = [parse(name) for name in protocol.report.metrics]
    _warn_of_doubles(query, gallery, scores)
    relevance = judge(protocol, query, gallery)
    check_counts(protocol, relevance, expected)
    _check_positives(relevance)
    ranking = _rank(protocol, gallery, scores, relevance, counting)
    policies: dict[str, Any] = {
        "no_positive": protocol.no_positive,
        "unretrieved": unretrieved,
        "missing_query": missing_query,
    }
    ties, evaluated = _all_ties(ranking, protocol, query, policies)
    kept = keep_ranking is True or (keep_ranking == "auto" and len(ranking.item) <= _KEPT_PAIRS)
    listed = ranking.top_item is not None
    return Result(
        protocol=protocol,
        counts=_counts(ranking, relevance, evaluated),
        metrics=MetricValues({str(n): ties[str(n)][protocol.report.ties] for n in names}),
        ties=ties,
        chance=chance(ranking, names, no_positive=protocol.no_positive),
        per_query=per_query_table(ranking, query, gallery, scores, protocol, policies),
        curves=curve_table(ranking, protocol, "CMC", _K_MAX),
        inputs=_inputs(query, gallery, scores),
        ranking=ranking if kept else None,
        rankings=top_lists(ranking, query, gallery, scores) if listed else None,
        environment=environment(time.perf_counter() - started),
    )


def prepare(
    protocol: Protocol,
    query: Samples | pd.DataFrame,
    gallery: Samples | pd.DataFrame,
    scores: Scores | None,
) -> tuple[Samples, Samples, Any]:
    """Apply what a protocol says of the two sides; return them with the scores aligned.

    Raises
    ------
    AlignmentError
        If the scores have other numbers of rows than the samples.
    """
    one = query is gallery
    ours = query if isinstance(query, Samples) else Samples(query)
    theirs = ours if one else gallery if isinstance(gallery, Samples) else Samples(gallery)
    if one and ours.ids is None and ours.n:
        ours = theirs = ours.with_columns(id=np.arange(ours.n))
    kept_query, query_rows = apply_spec(ours, side_spec(protocol, "query"), side="query")
    kept_gallery, gallery_rows = apply_spec(theirs, side_spec(protocol, "gallery"), side="gallery")
    if scores is None:
        return kept_query, kept_gallery, None
    if isinstance(scores, RankedLists):
        scores = _align_lists(scores, kept_query, kept_gallery, ours.n, query_rows)
    else:
        scores = _align(scores, (ours.n, theirs.n), query_rows, gallery_rows)
    return kept_query, kept_gallery, scores


def side_spec(protocol: Protocol, side: Literal["query", "gallery"]) -> SideSpec:
    """Return how a side is read, in the terms of the readers."""
    table = protocol.query if side == "query" else protocol.gallery
    return SideSpec(
        folder=table.folder, names=table.names, columns=table.columns, where=table.where,
        aliases=table.aliases,
    )  # fmt: skip


def judge(protocol: Protocol, query: Samples, gallery: Samples) -> Relevance:
    """Apply the protocol's rule to two prepared sides."""
    return _RULES[type(protocol.relevance)](protocol, query, gallery)


def _judge_labels(protocol: Protocol, query: Samples, gallery: Samples) -> Relevance:
    rule = protocol.relevance
    assert isinstance(rule, LabelRule)  # noqa: S101 (narrows the type)
    entries = [
        {key: value for key, value in entry.model_dump().items() if value} for entry in rule.ignore
    ]
    return same_label(
        query, gallery, label=rule.label, different=rule.different, same=rule.same,
        failing=rule.failing, ignore=entries, self=rule.self, no_positive=protocol.no_positive,
    )  # fmt: skip


def _judge_places(protocol: Protocol, query: Samples, gallery: Samples) -> Relevance:
    rule = protocol.relevance
    assert isinstance(rule, WithinRule)  # noqa: S101 (narrows the type)
    return within_metres(
        query, gallery, radius=rule.radius, inclusive=rule.inclusive, self=rule.self,
        coordinates=rule.coordinates, no_positive=protocol.no_positive,
    )  # fmt: skip


_RULES: Mapping[type, Callable[[Protocol, Samples, Samples], Relevance]] = {
    LabelRule: _judge_labels,
    WithinRule: _judge_places,
}


def check_counts(protocol: Protocol, relevance: Relevance, expected: Expected) -> None:
    """Compare the counts with the published ones.

    Raises
    ------
    ProtocolError
        Under "enforce", if one differs: says which side and by how much.
    """
    if expected not in ("enforce", "warn", "ignore"):
        raise ProtocolError(f"expected = {expected!r}: one of enforce, warn, ignore is needed")
    found = counts_before(relevance)
    wrong = []
    for name, wanted in protocol.expected.model_dump().items():
        accepted = wanted if isinstance(wanted, list) else [wanted]
        if wanted is not None and found[name] not in accepted:
            listed = " or ".join(f"{count:,}" for count in accepted)
            nearest = min(accepted, key=lambda count: abs(count - found[name]))
            wrong.append(f"{name} is {found[name]:,}, published {listed} "
                         f"({found[name] - nearest:+,})")  # fmt: skip
    if not wrong or expected == "ignore":
        return
    text = f"the data do not have the counts of {protocol.name}: {'; '.join(wrong)}"
    if expected == "enforce":
        raise ProtocolError(
            f"{text}. Something is missing, twice there or read differently; evaluate with "
            "expected='warn' (--expected warn) if this is meant"
        )
    warnings.warn(text, EvaluationWarning, stacklevel=3)


def counts_before(relevance: Relevance) -> dict[str, int]:
    """Return every count that is known before ranking."""
    n_self = int(relevance.n_self.sum())
    junk = int(relevance.ignored_gallery.sum())
    return {
        "n_query": relevance.n_query,
        "n_no_positive": int((relevance.n_positive == 0).sum()),
        "n_gallery": relevance.n_gallery,
        "n_gallery_ignored": junk,
        "n_gallery_ranked": relevance.n_gallery - junk,
        "n_positive_pairs": int(relevance.n_positive.sum()),
        "n_ignored_pairs": int(relevance.n_ignored.sum()) - n_self,
        "n_self_pairs": n_self,
    }


def environment(seconds: float) -> dict[str, Any]:
    """Return what a run was made with: versions, machine, time."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "versions": versions,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "seconds": round(seconds, 3),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _check_positives(relevance: Relevance) -> None:
    if not relevance.n_positive.any():
        raise RelevanceError(
            f"none of the {relevance.n_query} queries has a positive: {relevance.note}"
        )


def _align(
    scores: Any, given: tuple[int, int], query_rows: Any, gallery_rows: Any
) -> Scores:
    """Drop the rows that the protocol's `where` drops, unless they are gone already."""
    sizes = (scores.n_query, scores.n_gallery)
    rows = (query_rows, gallery_rows)
    chosen = []
    for side, size, n, keep in zip(("query", "gallery"), sizes, given, rows, strict=True):
        if size == n:
            chosen.append(keep)
        elif size == len(keep):
            chosen.append(np.arange(size))
        else:
            kept = "" if len(keep) == n else f" ({len(keep)} of them kept by the protocol)"
            raise AlignmentError(
                f"the scores have {size} {side} rows, the samples {n}{kept}: row i of the scores "
                "must belong to sample i"
            )
    if len(chosen[0]) == sizes[0] and len(chosen[1]) == sizes[1]:
        return scores  # type: ignore[no-any-return]
    return scores.take(*chosen)  # type: ignore[no-any-return]


def _align_lists(
    scores: RankedLists,
    query: Samples,
    gallery: Samples,
    n_given: int,
    query_rows: npt.NDArray[np.int64],
) -> RankedLists:
    if scores.has_ids:
        if gallery.ids is None:
            raise AlignmentError(
                "the ranked lists name items by id, but the gallery has no column 'id'"
            )
        scores = scores.resolve(gallery.ids)
    if scores.n_query == n_given and n_given != query.n:
        scores = scores.take(query_rows)
    if scores.n_query != query.n:
        raise AlignmentError(f"{scores.n_query} ranked lists for {query.n} queries")
    return scores


def _warn_of_doubles(query: Samples, gallery: Samples, scores: object) -> None:
    """Warn when both sides are the same vectors but nothing says that they are the same items."""
    if not isinstance(scores, Embeddings) or query is gallery:
        return
    if query.ids is not None and gallery.ids is not None:
        return
    if scores.n_query == scores.n_gallery and (
        scores.query is scores.gallery or np.array_equal(scores.query, scores.gallery)
    ):
        warnings.warn(
            "both sides have the same vectors row by row and no ids, so every query will find "
            "itself: give one Samples object for both sides, or ids",
            EvaluationWarning,
            stacklevel=4,
        )


def _rank(
    protocol: Protocol,
    gallery: Samples,
    scores: Scores,
    relevance: Relevance,
    given: Mapping[str, Any],
) -> Ranking:
    """Rank with the protocol's counting keywords and those of the call, which win."""
    options: dict[str, Any] = {**protocol.count.model_dump(), **given}
    if isinstance(options["strata"], str):
        options["strata"] = gallery.keys(options["strata"])
    by_id = isinstance(options["tie_order"], str) and options["tie_order"] == "id_desc"
    if by_id:
        options["tie_order"] = _descending_ids(gallery)
    ranking = rank(scores, relevance, **options)
    return replace(ranking, tie_order="id_desc") if by_id else ranking


def _descending_ids(gallery: Samples) -> npt.NDArray[np.int64]:
    if gallery.ids is None:
        raise AlignmentError("tie_order 'id_desc' needs a column 'id' on the gallery side")
    order = np.argsort(gallery.ids.astype(np.str_), kind="stable")[::-1]
    keys = np.empty(gallery.n, np.int64)
    keys[order] = np.arange(gallery.n)
    return keys


def _all_ties(
    ranking: Ranking, protocol: Protocol, query: Samples, policies: Mapping[str, Any]
) -> tuple[dict[str, dict[str, float]], npt.NDArray[np.bool_]]:
    """Compute every metric with equal scores read in each of the four ways."""
    out: dict[str, dict[str, float]] = {}
    evaluated = np.ones(ranking.n_query, bool)
    for ties in TIES:
        values = compute(ranking, protocol.report.metrics, ties=ties, **policies)
        evaluated = values.evaluated
        for name in values:
            number = values[name]
            if protocol.evaluation.macro and parse(name).metric.aggregate == "mean":
                number = _macro(values.per_query(name), query, protocol.evaluation.macro)
            out.setdefault(name, {})[ties] = number
    return out, evaluated


def _macro(values: npt.NDArray[np.float64], query: Samples, columns: list[str]) -> float:
    """Average over the groups of some columns first, then over the groups."""
    inside = ~np.isnan(values)
    keys = [np.unique(query.keys(column), return_inverse=True)[1] for column in columns]
    _, group = np.unique(np.stack(keys)[:, inside], axis=1, return_inverse=True)
    kept, group = values[inside], group.ravel()
    means = [exact_mean(kept[group == number]) for number in range(int(group.max()) + 1)]
    return exact_mean(np.array(means))


def _counts(
    ranking: Ranking, relevance: Relevance, evaluated: npt.NDArray[np.bool_]
) -> dict[str, float]:
    reading = Reading.of(ranking)
    reachable = evaluated & ((reading.n_positive > 0) | (ranking.no_positive == "one"))
    return {
        **counts_before(relevance),
        "n_evaluated": int(evaluated.sum()),
        "n_tied_queries": int((reading.tied & evaluated).sum()),
        "ceiling": int(reachable.sum()) / int(evaluated.sum()),
    }


def _inputs(query: Samples, gallery: Samples, scores: Scores) -> dict[str, Any]:
    inputs: dict[str, Any] = {
        "query": query.fingerprint(),
        "gallery": gallery.fingerprint(),
        "scores_fingerprint": scores.fingerprint(),
        "scores": {
            "Embeddings": "features",
            "ScoreMatrix": "a matrix of similarities" if getattr(scores, "higher_is_better", True)
            else "a matrix of distances",
            "RankedLists": "ranked lists",
        }[type(scores).__name__],
        "metric": getattr(scores, "metric", None),
    }  # fmt: skip
    return inputs
