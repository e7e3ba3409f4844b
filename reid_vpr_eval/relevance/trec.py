"""From TREC judgements and a run to what the engine ranks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reid_vpr_eval.errors import AlignmentError, RelevanceError, name_some
from reid_vpr_eval.formats.trec import Qrels, Run
from reid_vpr_eval.relevance.pairs import Relevance
from reid_vpr_eval.scores import RankedLists

__all__ = ["TrecInputs", "trec_inputs"]


class TrecInputs(NamedTuple):
    """Ranked lists and relevance of the same topics and documents.

    Attributes
    ----------
    scores : RankedLists
        One list a topic, with scores.
    relevance : Relevance
        Positives are the documents of the asked level.
    topics : list of str
        The queries, in the order of rows; sorted.
    docs : list of str
        The gallery, in the order of rows: names from the greatest to the smallest, so that
        ``tie_order="position"``, the default of ``rank``, is trec_eval's order of equal scores.
    """

    scores: RankedLists
    relevance: Relevance
    topics: list[str]
    docs: list[str]


def trec_inputs(qrels: Qrels, run: Run, *, level: float = 1, complete: bool = False) -> TrecInputs:
    """Turn judgements and a run into ranked lists and a relevance.

    With ``compute(..., ties="index", unretrieved="zero")`` the numbers are those of
    trec_eval: equal scores are ordered by document name, the greatest first, and what was
    not returned is never found. The gallery are the documents that either of both names.

    Parameters
    ----------
    qrels : Qrels
        Topics without a positive stay, and score 0.
    run : Run
        Topics that were not judged are left out.
    level : float
        The least grade of a positive (``trec_eval -l``). Smaller grades above 0 are negatives
        that still have a gain in NDCG.
    complete : bool
        False evaluates the topics of the run; True all judged topics (``trec_eval -c``): then
        topics that the run lacks have empty lists, to be scored with ``missing_query="zero"``.

    Raises
    ------
    RelevanceError
        If `level` is not above 0, or a grade is negative.
    AlignmentError
        If the judgements and the run have no topic in common.

    Examples
    --------
    >>> from reid_vpr_eval import compute, rank
    >>> qrels = Qrels({"t": {"a": 1, "b": 0, "c": 2}})
    >>> run = Run({"t": {"a": 0.5, "b": 0.5, "c": 0.1}})
    >>> scores, relevance, topics, docs = trec_inputs(qrels, run)
    >>> topics, docs
    (['t'], ['c', 'b', 'a'])
    >>> compute(rank(scores, relevance), "MRR", ties="index")["MRR"]
    0.5
    """
    if not level > 0:
        raise RelevanceError(
            f"level = {level}: a positive has a grade above 0, so the level must be above 0 too"
        )
    shared = set(qrels.grades) & set(run.scores)
    if not shared:
        raise AlignmentError(
            f"the judgements (topics {name_some(qrels.topics)}) and the run (topics "
            f"{name_some(run.topics)}) have no topic in common: do both belong together?"
        )
    topics = qrels.topics if complete else sorted(shared)
    sides = (*qrels.grades.values(), *run.scores.values())
    docs = sorted(set[str]().union(*sides), reverse=True)
    place = {doc: row for row, doc in enumerate(docs)}
    ranked = [run.ranked(topic) if topic in shared else [] for topic in topics]
    scores = RankedLists(
        [[place[doc] for doc in found] for found in ranked],
        [[run.scores[topic][doc] for doc in found]
         for topic, found in zip(topics, ranked, strict=True)],
    )  # fmt: skip
    pairs = [
        (row, place[doc], grade)
        for row, topic in enumerate(topics)
        for doc, grade in qrels.grades[topic].items()
    ]
    relevance = Relevance.from_pairs(
        np.array([pair[0] for pair in pairs], np.int64),
        np.array([pair[1] for pair in pairs], np.int64),
        np.array([pair[2] for pair in pairs], np.float64),
        positive_from=level, n_query=len(topics), n_gallery=len(docs), no_positive="zero",
    )  # fmt: skip
    return TrecInputs(scores, relevance, topics, docs)
