"""TREC files: judgements (qrels) and the ranked answers of a system (runs)."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from reid_vpr_eval.errors import FormatError, counted
from reid_vpr_eval.formats.registry import existing

__all__ = ["Qrels", "Run", "read_qrels", "read_run"]

_Value = TypeVar("_Value", int, float)

_WHOLE = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_QRELS_LINE = "topic, iteration, document, grade"
_RUN_LINE = "topic, Q0, document, rank, score, tag"


@dataclass(frozen=True, slots=True)
class Qrels:
    """How relevant the judged documents of each topic are.

    Parameters
    ----------
    grades : mapping of topic to a mapping of document to grade
        0 is judged and not relevant. A document that is not named was not judged.

    Examples
    --------
    >>> Qrels({"301": {"FT911-3": 1, "LA1-2": 0}, "302": {}}).topics
    ['301', '302']
    """

    grades: Mapping[str, Mapping[str, int]]

    @property
    def topics(self) -> list[str]:
        """The judged topics, sorted."""
        return sorted(self.grades)


@dataclass(frozen=True, slots=True)
class Run:
    """What a system returned for each topic.

    Parameters
    ----------
    scores : mapping of topic to a mapping of document to score
        Higher is better.

    Examples
    --------
    >>> run = Run({"301": {"FT911-3": 0.5, "LA1-2": 0.5, "AP88-1": 0.7}})
    >>> run.ranked("301")
    ['AP88-1', 'LA1-2', 'FT911-3']
    >>> run.cut(2).scores
    {'301': {'AP88-1': 0.7, 'LA1-2': 0.5}}
    """

    scores: Mapping[str, Mapping[str, float]]

    @property
    def topics(self) -> list[str]:
        """The topics that something was returned for, sorted."""
        return sorted(self.scores)

    def ranked(self, topic: str) -> list[str]:
        """Return the documents of a topic, best first.

        As in trec_eval they are ordered by score and, where scores are equal, by the name
        of the document, the greatest first.
        """
        scores = self.scores[topic]
        return sorted(scores, key=lambda doc: (scores[doc], doc), reverse=True)

    def cut(self, depth: int) -> Run:
        """Return the run with the first few documents of each topic (``trec_eval -M``).

        Raises
        ------
        FormatError
            If `depth` is below 1.
        """
        if depth < 1:
            raise FormatError(f"depth = {depth}: 1 or more documents of each topic are kept")
        return Run(
            {
                topic: {doc: scores[doc] for doc in self.ranked(topic)[:depth]}
                for topic, scores in self.scores.items()
            }
        )


def read_qrels(path: str | os.PathLike[str]) -> Qrels:
    """Read judgements, one a line: topic, iteration (ignored), document, grade.

    Blank lines and lines that begin with ``#`` are skipped. A negative grade means that the
    document was not judged: it is left out, but its topic stays.

    Raises
    ------
    InputNotFoundError
        If there is no such file.
    FormatError
        If a line is malformed or a topic names a document twice; the line is named.
    """
    source = Path(path)
    grades: dict[str, dict[str, int]] = {}
    for number, fields in _lines(source, "qrels file"):
        if len(fields) != 4:
            raise _wrong(source, number, f"{counted(len(fields), 'column')}, not 4 ({_QRELS_LINE})")
        topic, _, doc, grade = fields
        if not _WHOLE.fullmatch(grade):
            raise _wrong(source, number, f"the grade {grade!r}: a whole number is needed")
        _put(grades, topic, doc, int(grade), source, number)
    if not grades:
        raise FormatError(f"{source}: holds no judgement; each line is {_QRELS_LINE}")
    return Qrels(
        {
            topic: {doc: grade for doc, grade in judged.items() if grade >= 0}
            for topic, judged in grades.items()
        }
    )


def read_run(path: str | os.PathLike[str]) -> Run:
    """Read a run, one answer a line: topic, Q0, document, rank, score, tag.

    Only the score orders the documents of a topic; the columns Q0, rank and tag and what
    follows them are ignored. Blank lines and lines that begin with ``#`` are skipped.

    Raises
    ------
    InputNotFoundError
        If there is no such file.
    FormatError
        If a line is malformed or a topic names a document twice; the line is named.
    """
    source = Path(path)
    scores: dict[str, dict[str, float]] = {}
    for number, fields in _lines(source, "run file"):
        if len(fields) < 6:
            raise _wrong(source, number, f"{counted(len(fields), 'column')}, not 6 ({_RUN_LINE})")
        topic, _, doc, _, text = fields[:5]
        score = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not math.isfinite(score):
            raise _wrong(source, number, f"the score {text!r}: a finite number is needed")
        _put(scores, topic, doc, score, source, number)
    if not scores:
        raise FormatError(f"{source}: holds no answer; each line is {_RUN_LINE}")
    return Run(scores)


def _lines(path: Path, what: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the columns of each line that says something."""
    existing(path, what)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path}: is not UTF-8 text (byte {error.start}); save the {what} as plain text"
        ) from error
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from error
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if fields and not fields[0].startswith("#"):
            yield number, fields


def _wrong(path: Path, number: int, what: str) -> FormatError:
    return FormatError(f"{path}: line {number} has {what}")


def _put(
    content: dict[str, dict[str, _Value]],
    topic: str,
    doc: str,
    value: _Value,
    path: Path,
    number: int,
) -> None:
    named = content.setdefault(topic, {})
    if doc in named:
        raise FormatError(
            f"{path}: line {number} names the document {doc!r} for topic {topic!r} a second time; "
            "keep one of the lines"
        )
    named[doc] = value
