"""Score sources: how the engine asks features or a matrix for scores; one file a kind."""

from reid_vpr_eval.ranking.sources.base import Rows, Source, TileScores, source_of

__all__ = ["Rows", "Source", "TileScores", "source_of"]
