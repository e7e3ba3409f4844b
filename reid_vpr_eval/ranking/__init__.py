"""Where they rank: one pass that counts, and the Ranking it leaves."""

from reid_vpr_eval.ranking.engine import rank
from reid_vpr_eval.ranking.ranking import Ranking, check_ranking

__all__ = ["Ranking", "check_ranking", "rank"]
