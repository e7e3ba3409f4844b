"""The whole way: from a protocol, samples and scores to a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from reid_vpr_eval.alignment import pool_queries, prepare
from reid_vpr_eval.counts import Expected
from reid_vpr_eval.errors import FormatError, NotCountedError
from reid_vpr_eval.evaluation.drawn import evaluate_drawn
from reid_vpr_eval.evaluation.gallery import evaluate_gallery
from reid_vpr_eval.protocol import Protocol, load_protocol
from reid_vpr_eval.result import Result
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Scores
from reid_vpr_eval.uncertainty import units_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["evaluate", "evaluate_prepared"]


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
    by: Sequence[str] = (),
    truth: Any = None,
    interval: str | Mapping[str, Any] | None = None,
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
    by : sequence of str
        Query columns to break the numbers down by.
    truth : optional
        What the protocol leaves to its user: lists for a rule of kind ``listed``, neighbours
        (or features of another space) for ``nearest``; see :func:`reid_vpr_eval.rules.judge`.
    interval : str or mapping, optional
        How intervals are made where not as the protocol says: a method, or keys of its
        table ``report.interval`` such as ``{"unit": "sequence", "level": 0.9}``; "none":
        there are none.
    **counting
        Every keyword of :func:`rank`; `group` and `blocks` may name a gallery column, and so
        may `strata`, or "random:100" (100 random strata; with a seed "random:100:7", within
        each value of a column "camera,random:100"); `tie_order` may be "id_desc".

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
        unretrieved=unretrieved, missing_query=missing_query, by=by, truth=truth,
        interval=interval, **counting,
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
    by: Sequence[str] = (),
    truth: Any = None,
    interval: str | Mapping[str, Any] | None = None,
    **counting: Any,
) -> Result:
    """Evaluate two sides to which the protocol's columns, where and aliases were applied."""
    if protocol.multi_query:
        query, scores = pool_queries(query, scores, protocol.multi_query)
    protocol = protocol.with_interval(interval)
    if isinstance(interval, Mapping) and interval.get("unit"):
        reason = units_of(protocol, query).reason
        if reason:
            raise FormatError(reason)
    if protocol.draw is not None:
        if by or keep_ranking is True:
            asked = "by" if by else "keep_ranking=True"
            raise NotCountedError(
                f"{asked}: {protocol.name} draws its gallery, and its numbers are means over "
                "draws, which have no breakdown and no counts of their own: leave it out"
            )
        return evaluate_drawn(protocol, query, gallery, scores, expected, truth, counting)
    return evaluate_gallery(
        protocol, query, gallery, scores, expected=expected, keep_ranking=keep_ranking,
        unretrieved=unretrieved, missing_query=missing_query, by=by, truth=truth,
        **counting,
    )  # fmt: skip
