"""Calls of other tools, with their signatures and return shapes, read from one ranking.

Each module stands for one tool or family of tools. Where the original crashes, is wrong or
leaves the order of equal scores to chance, the module says what is done instead. Equal
scores are ordered by gallery position (``ties="index"``) unless another reading is asked
for by the keyword `ties`, which the originals do not have.
"""

__all__ = [
    "cross_modal",
    "fastreid",
    "metric_learning",
    "oml",
    "places",
    "revisitop",
    "torchreid",
    "transreid",
]
