"""From a protocol, samples and scores to a result, in one gallery or in drawn ones."""

from reid_vpr_eval.evaluation.evaluating import evaluate, evaluate_prepared

__all__ = ["evaluate", "evaluate_prepared"]
