"""One evaluation by another tool: ``python peer_script.py NAME FOLDER``.

It runs in the environment of that tool, so it imports NumPy and the tool and nothing of
this repository. It reads vectors of length 1 and labels from the folder and prints one
line of JSON: seconds from features in memory to metrics, the metrics, the highest resident
memory in bytes; or why it was skipped. A first small run, not counted, loads and compiles.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_WARM = 32
_CUTOFFS = (1, 5, 10)
_RANX_DEPTH = 1000


@dataclass
class Data:
    """Features and labels; where `square`, every item is ranked against all others."""

    query: Any
    gallery: Any
    query_label: Any
    gallery_label: Any
    square: bool

    @classmethod
    def load(cls, folder: Path) -> Data:
        """Read what was written for peers."""
        query, label = np.load(folder / "query.npy"), np.load(folder / "query_label.npy")
        if not (folder / "gallery.npy").exists():
            return cls(query, query, label, label, True)
        gallery, other = np.load(folder / "gallery.npy"), np.load(folder / "gallery_label.npy")
        return cls(query, gallery, label, other, False)

    def small(self) -> Data:
        """Return a piece of it, of a few queries and all of their labels' items."""
        labels = np.unique(self.query_label[:_WARM])[:_WARM]
        ours = np.isin(self.query_label, labels).nonzero()[0][: 4 * _WARM]
        theirs = np.isin(self.gallery_label, labels).nonzero()[0][: 16 * _WARM]
        if self.square:
            theirs = ours
        return Data(self.query[ours], self.gallery[theirs], self.query_label[ours],
                    self.gallery_label[theirs], self.square)  # fmt: skip


def _hits(data: Data, items: Any) -> dict[str, float]:
    """Return CMC from lists of the first items; the query itself is taken out."""
    right = data.gallery_label[items] == data.query_label[:, None]
    if data.square:
        own = items == np.arange(len(items))[:, None]
        rest = ~own & (np.cumsum(~own, axis=1) <= items.shape[1] - 1)
        keep = np.argsort(~rest, axis=1, kind="stable")[:, : items.shape[1] - 1]
        right = np.take_along_axis(right, keep, axis=1)
    return {f"CMC@{k}": float(right[:, :k].any(axis=1).mean()) for k in _CUTOFFS
            if k <= right.shape[1]}  # fmt: skip


def numpy_argsort(data: Data) -> dict[str, float]:
    """All scores, a full sort of every row, precision at every hit."""
    order = np.argsort(-(data.query @ data.gallery.T), axis=1)
    right = data.gallery_label[order] == data.query_label[:, None]
    hits = np.cumsum(right, axis=1)
    precision = hits / np.arange(1, right.shape[1] + 1)
    count = right.sum(axis=1)
    found = count > 0
    ap = (precision * right).sum(axis=1)[found] / count[found]
    cmc = {f"CMC@{k}": float(right[found, :k].any(axis=1).mean()) for k in _CUTOFFS}
    return {"mAP": float(ap.mean()), **cmc}


def sklearn_knn(data: Data) -> dict[str, float]:
    """NearestNeighbors, brute force."""
    from sklearn.neighbors import NearestNeighbors

    index = NearestNeighbors(n_neighbors=max(_CUTOFFS) + data.square, algorithm="brute")
    index.fit(data.gallery)
    return _hits(data, index.kneighbors(data.query, return_distance=False))


def faiss_flat(data: Data) -> dict[str, float]:
    """IndexFlatIP, the first ten."""
    import faiss

    index = faiss.IndexFlatIP(data.gallery.shape[1])
    index.add(data.gallery)
    _, items = index.search(data.query, max(_CUTOFFS) + data.square)
    return _hits(data, items)


def pytorch_metric_learning(data: Data) -> dict[str, float]:
    """AccuracyCalculator; mAP needs the whole list, which only fits where it is not square."""
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    names = {"precision_at_1": "CMC@1", "mean_average_precision": "mAP"}
    if data.square:
        names = {"precision_at_1": "CMC@1", "r_precision": "R-precision",
                 "mean_average_precision_at_r": "MAP@R"}  # fmt: skip
    calculator = AccuracyCalculator(include=tuple(names), device=torch.device("cpu"),
                                    k="max_bin_count" if data.square else None)  # fmt: skip
    query, label = torch.from_numpy(data.query), torch.from_numpy(data.query_label)
    if data.square:
        found = calculator.get_accuracy(query, label)
    else:
        found = calculator.get_accuracy(
            query, label, torch.from_numpy(data.gallery), torch.from_numpy(data.gallery_label)
        )
    return {mine: float(found[theirs]) for theirs, mine in names.items()}


def torchmetrics(data: Data) -> dict[str, float]:
    """RetrievalMAP over all pairs."""
    import torch
    from torchmetrics.retrieval import RetrievalMAP

    scores = torch.from_numpy(data.query) @ torch.from_numpy(data.gallery).T
    scores += 1  # it takes items with a score below 0 for not retrieved
    right = torch.from_numpy(data.query_label)[:, None] == torch.from_numpy(data.gallery_label)
    index = torch.arange(len(scores))[:, None].expand(scores.shape)
    metric = RetrievalMAP(empty_target_action="skip")
    metric.update(scores.flatten(), right.flatten(), indexes=index.flatten())
    return {"mAP": float(metric.compute())}


def ranx(data: Data) -> dict[str, float]:
    """All relevant items, runs of the first thousand: longer ones are more than it holds."""
    from ranx import Qrels, Run, evaluate

    scores = data.query @ data.gallery.T
    depth = min(_RANX_DEPTH, scores.shape[1])
    top = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
    # Names of one length: another length is another type, for which ranx compiles again.
    asked, names = (np.array([f"{i:08d}" for i in range(n)]) for n in scores.shape)
    run = {query: dict(zip(names[items].tolist(), scores[i, items].tolist(), strict=True))
           for i, (query, items) in enumerate(zip(asked.tolist(), top, strict=True))}  # fmt: skip
    positive = {
        query: dict.fromkeys(names[data.gallery_label == label].tolist(), 1)
        for query, label in zip(asked.tolist(), data.query_label, strict=True)
    }
    known = {query: items for query, items in positive.items() if items}
    found = evaluate(Qrels(known), Run({query: run[query] for query in known}),
                     ["map@1000", "hit_rate@1"])  # fmt: skip
    return {"mAP@1000": float(found["map@1000"]), "CMC@1": float(found["hit_rate@1"])}


PEERS: dict[str, Callable[[Data], dict[str, float]]] = {
    "numpy argsort": numpy_argsort, "scikit-learn kNN": sklearn_knn, "faiss flat": faiss_flat,
    "pytorch-metric-learning": pytorch_metric_learning, "torchmetrics": torchmetrics,
    "ranx": ranx,
}  # fmt: skip


def main() -> None:
    """Do what the command line says."""
    name, folder = sys.argv[1:]
    peer, data = PEERS[name], Data.load(Path(folder))
    try:
        peer(data.small())
    except ImportError as error:
        print(json.dumps({"skipped": f"{name} is not installed there ({error})"}))
        return
    begin = time.perf_counter()
    metrics = peer(data)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "metrics": metrics, "peak": peak}))


if __name__ == "__main__":
    main()
