"""The exceptions of the package: what is wrong, where, and how to mend it.

Every error that a user can cause is one of these. All are ``ValueError`` too, so
that callers who know nothing of this package can catch them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = [
    "AlignmentError",
    "ClusterError",
    "EvaluationWarning",
    "FormatError",
    "InputNotFoundError",
    "NotCountedError",
    "ProtocolError",
    "RelevanceError",
    "ReidVprEvalError",
    "ScoreError",
    "counted",
    "name_some",
]


class ReidVprEvalError(ValueError):
    """Base class of every error that this package raises on purpose."""


class ProtocolError(ReidVprEvalError):
    """A protocol file is unknown, malformed, or does not fit the data it is given."""


class FormatError(ReidVprEvalError):
    """A file or a table cannot be read as what it claims to be."""


class InputNotFoundError(FormatError, FileNotFoundError):
    """A file or folder that was named does not exist."""


class AlignmentError(ReidVprEvalError):
    """Two things that must belong together (rows, ids, labels) do not."""


class RelevanceError(ReidVprEvalError):
    """The rule of who is right cannot be applied, or leaves nothing to evaluate."""


class ScoreError(ReidVprEvalError):
    """Features, scores or ranked lists are unusable: not finite, zero, of the wrong size."""


class NotCountedError(ReidVprEvalError):
    """A number was asked for that needs something which was not counted."""


class ClusterError(ReidVprEvalError):
    """A cluster does not answer, or its workers cannot do the work."""


class EvaluationWarning(UserWarning):
    """Something that does not stop an evaluation but that its reader should know."""


def counted(n: float, one: str, several: str = "", *, form: str = "") -> str:
    """Write a number with what is counted, and with its verb if that is given too.

    Parameters
    ----------
    n : number
        A whole one.
    one, several : str
        What follows 1, and any other number; by default the last word of `one` takes an s.
    form : str
        How the number is written: "," with separators of thousands.

    Examples
    --------
    >>> counted(1, "query"), counted(0, "query"), counted(2, "gallery row")
    ('1 query', '0 queries', '2 gallery rows')
    >>> counted(1, "row has", "rows have"), counted(12000, "row has", "rows have", form=",")
    ('1 row has', '12,000 rows have')
    """
    if n == 1:
        return f"1 {one}"
    plural = f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
    return f"{int(n):{form}} {several or plural}"


def name_some(items: Iterable[object] | Sequence[object], limit: int = 5) -> str:
    """Name the first few of many things, and say how many more there are.

    >>> name_some([3, 4, 5], limit=2)
    '3, 4 and 1 more'
    """
    every = list(items)
    shown = ", ".join(str(item) for item in every[:limit])
    more = len(every) - limit
    return f"{shown} and {more} more" if more > 0 else shown
