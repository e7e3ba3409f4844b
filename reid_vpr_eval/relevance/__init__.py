"""Who is right: the rules that say which gallery items answer a query."""

from reid_vpr_eval.relevance.frames import frame_window
from reid_vpr_eval.relevance.geography import within_metres
from reid_vpr_eval.relevance.labels import same_label
from reid_vpr_eval.relevance.list_files import read_lists
from reid_vpr_eval.relevance.listing import listed
from reid_vpr_eval.relevance.neighbours import nearest_neighbours
from reid_vpr_eval.relevance.pairs import Relevance
from reid_vpr_eval.relevance.poses import pose

__all__ = [
    "Relevance", "frame_window", "listed", "nearest_neighbours", "pose", "read_lists",
    "same_label", "within_metres",
]  # fmt: skip
