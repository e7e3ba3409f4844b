"""Galleries that are drawn: samples of them, and the exact expectation over all draws.

A draw takes n items of each group of the gallery (an identity, an identity in a camera).
For n = 1 the expectation is exact.
"""

from reid_vpr_eval.draws.drawing import draw_codes, drawn_for_each, draws_of
from reid_vpr_eval.draws.expectation import expected_over_draws

__all__ = ["draw_codes", "drawn_for_each", "draws_of", "expected_over_draws"]
