"""Where they rank: one pass that counts, and the Ranking it leaves."""

from reid_vpr_eval.ranking.engine import rank
from reid_vpr_eval.ranking.ranking import Ranking

__all__ = ["Ranking", "rank"]
