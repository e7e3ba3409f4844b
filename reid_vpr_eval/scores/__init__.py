"""What similarity is made of: features, a matrix of scores, or ranked lists.

Whether larger is better is part of the type, never a guess. Everything is checked once,
at the door; what these objects hold afterwards is finite and fits together.
"""

from typing import TypeAlias

from reid_vpr_eval.scores.distances import METRICS, MetricName
from reid_vpr_eval.scores.embeddings import Embeddings
from reid_vpr_eval.scores.lists import RankedLists
from reid_vpr_eval.scores.matrix import ScoreMatrix
from reid_vpr_eval.scores.shards import Shards, Vectors

__all__ = [
    "METRICS", "Embeddings", "MetricName", "RankedLists", "ScoreMatrix", "Scores", "Shards",
    "Vectors",
]  # fmt: skip

Scores: TypeAlias = Embeddings | ScoreMatrix | RankedLists
