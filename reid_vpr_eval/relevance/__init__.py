"""Who is right: the rules that say which gallery items answer a query."""

from reid_vpr_eval.relevance.geography import within_metres
from reid_vpr_eval.relevance.labels import same_label
from reid_vpr_eval.relevance.pairs import Relevance

__all__ = ["Relevance", "same_label", "within_metres"]
