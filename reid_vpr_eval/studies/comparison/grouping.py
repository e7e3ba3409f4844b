"""Which runs are compared, what they are called, and which of them are one model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from reid_vpr_eval.errors import AlignmentError, FormatError, counted
from reid_vpr_eval.result import Result

__all__ = ["Group", "Source", "grouped"]

#: A run: a result, or the folder where one was saved.
Source: TypeAlias = Result | str | os.PathLike[str]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """One model: a name and its runs, several where they differ by seed or checkpoint."""

    name: str
    sources: tuple[Source, ...]

    def described(self, number: int) -> str:
        """Name one of the runs: its folder, or its place."""
        source = self.sources[number]
        if not isinstance(source, Result):
            return str(source)
        return self.name if len(self.sources) == 1 else f"{self.name}, run {number + 1}"


def grouped(
    runs: Mapping[str, Any] | Sequence[Any], names: Sequence[str | None] | None = None
) -> list[Group]:
    """Return the models that are compared.

    Parameters
    ----------
    runs : mapping or sequence
        Results or run folders; a list of them in the place of one is one model with several
        runs. A mapping gives names.
    names : sequence of str, optional
        One for each entry; entries of equal names are one model. None stands for the name
        of the folder, as long as is needed to tell them apart.

    Raises
    ------
    AlignmentError
        If there are fewer than two models, or not one name for each entry.
    FormatError
        If an entry is no run, or a list of none.

    Examples
    --------
    >>> [(g.name, len(g.sources)) for g in grouped(["runs/a", "runs/b", "runs/c"], ["x", "y", "y"])]
    [('x', 1), ('y', 2)]
    """
    if isinstance(runs, str | os.PathLike | Result):
        raise AlignmentError(
            "one run was given: at least two are needed for a comparison, in one list or mapping, "
            "as compare([first, second])"
        )
    if isinstance(runs, Mapping):
        if names is not None:
            raise AlignmentError("names are given twice: by the keys of runs, and by names=")
        names, runs = list(runs), list(runs.values())
    entries = [_sources(entry) for entry in runs]
    if names is not None and len(names) != len(entries):
        raise AlignmentError(
            f"{counted(len(names), 'name')} for {counted(len(entries), 'run')}: one each is needed"
        )
    called = _default_names(entries) if names is None or None in names else list(names)
    if names is not None:
        called = [own if name is None else name
                  for name, own in zip(names, called, strict=True)]  # fmt: skip
    models: dict[str, list[Source]] = {}
    for name, sources in zip(called, entries, strict=True):
        words = " ".join(str(name).split())
        if not words:
            raise AlignmentError("a name is empty: every run needs one")
        models.setdefault(words, []).extend(sources)
    if len(models) < 2:
        told = ", ".join(
            f"one is given ({name!r}, {len(sources)} run{'s' if len(sources) > 1 else ''})"
            for name, sources in models.items()
        )
        raise AlignmentError(
            f"a comparison needs two models at least, {told or 'none is given'}; runs of equal "
            "names are one model"
        )
    return [Group(name, tuple(sources)) for name, sources in models.items()]


def _sources(entry: Any) -> list[Source]:
    if isinstance(entry, str | os.PathLike | Result):
        return [entry]
    if isinstance(entry, Iterable):
        every = [source for part in entry for source in _sources(part)]
        if every:
            return every
        raise FormatError("a list of runs is empty: name at least one run for each model")
    raise FormatError(
        f"a {type(entry).__name__} is no run: give a Result, a run folder, or a list of these"
    )


def _default_names(entries: Sequence[Sequence[Source]]) -> list[str]:
    """Return folder names as long as is needed to tell them apart, else numbers."""
    first = [entry[0] for entry in entries]
    paths = [None if isinstance(one, Result) else Path(os.path.abspath(one)) for one in first]
    longest = max((len(path.parts) for path in paths if path is not None), default=1)
    names: list[str] = []
    for depth in range(1, longest + 1):
        names = [
            f"run {i + 1}" if path is None else "/".join(path.parts[-depth:])
            for i, path in enumerate(paths)
        ]
        if len(set(names)) == len(set(map(str, paths))) + paths.count(None) - (None in paths):
            break
    return [f"{name} [{names[:i].count(name) + 1}]" if names.count(name) > 1 else name
            for i, name in enumerate(names)]  # fmt: skip
