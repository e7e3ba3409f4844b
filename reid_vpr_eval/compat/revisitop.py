"""``compute_map`` of revisitop (Revisited Oxford and Paris).

What differs from the original: lists may be shorter than the database (positives that were
not returned are never found; there a query of which nothing was found stops the precision),
an item that stands twice in a list is an error, junk beats ok where both name an item, and
an error is raised instead of a division by zero if no query has a positive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.compat._reading import indexed
from reid_vpr_eval.errors import AlignmentError, counted
from reid_vpr_eval.evaluator import plain_array
from reid_vpr_eval.metrics import compute
from reid_vpr_eval.ranking import rank
from reid_vpr_eval.scores import RankedLists

__all__ = ["compute_map"]

Floats = npt.NDArray[np.float64]


def compute_map(
    ranks: Any, gnd: Sequence[Mapping[str, Any]], kappas: Sequence[int] = ()
) -> tuple[float, Floats, Floats, Floats]:
    """Compute mean average precision by the trapezoid rule, junk removed.

    Parameters
    ----------
    ranks : int array (n_gallery, n_query)
        Database rows, best first; one column a query.
    gnd : sequence of mappings
        For each query ``ok`` and perhaps ``junk``: lists of database rows.
    kappas : sequence of int
        Cut-offs of the precision, whose denominator is the smaller of the cut-off and the
        rank of the last positive.

    Returns
    -------
    map : float
        Over the queries that have a positive.
    aps : float64 array (n_query,)
        NaN for queries without a positive.
    pr : float64 array (n_kappas,)
    prs : float64 array (n_query, n_kappas)

    Examples
    --------
    >>> mean_ap, aps, pr, prs = compute_map([[0], [2], [1]], [{"ok": [1], "junk": [0]}], [1, 2])
    >>> mean_ap, pr
    (0.25, array([0. , 0.5]))
    """
    order = plain_array(ranks)
    if order.ndim != 2 or order.shape[1] != len(gnd):
        raise AlignmentError(
            f"ranks have the shape {order.shape} and the truth {counted(len(gnd), 'query')}: the "
            "shape (database, queries) is needed"
        )
    right = [plain_array(entry["ok"]).astype(np.int64) for entry in gnd]
    junk = [plain_array(entry.get("junk", ())).astype(np.int64) for entry in gnd]
    named = max((int(row.max()) for row in (*right, *junk) if row.size), default=-1)
    n_gallery = max(int(order.max(initial=0)), named, len(order) - 1) + 1
    relevance = indexed(right, n_gallery, ignored=junk, no_positive="skip")
    names = [f"P@{k}(divisor=last)" for k in kappas]
    values = compute(
        rank(RankedLists(order.T), relevance), ["mAP(rule=trapezoid)", *names],
        ties="index", unretrieved="zero", missing_query="zero",
    )  # fmt: skip
    columns = [values.per_query(name) for name in names]
    return (
        values["mAP(rule=trapezoid)"],
        values.per_query("mAP(rule=trapezoid)"),
        np.array([values[name] for name in names]),
        np.stack(columns, axis=1) if columns else np.zeros((len(gnd), 0)),
    )
