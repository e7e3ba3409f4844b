"""Profiles: the rules of other tools, as data in TOML files."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reid_vpr_eval.errors import ProtocolError
from reid_vpr_eval.metrics import TIES, parse
from reid_vpr_eval.protocol import protocol_folder

__all__ = ["Profile", "ProfileMetric", "list_profiles", "load_profile"]

_TEXTS = ("name", "title", "reference", "note")
#: The words each key takes, its default first; None: it has to be given.
_WORDS: dict[str, tuple[str | None, ...]] = {
    "ties": (None, "index", "reversed", "grouped", *TIES),
    "no_positive": (None, "skip", "zero", "one", "undefined", "error"),
    "tie_order": ("position", "id_desc"),
    "unretrieved": ("error", "zero"),
    "missing_query": ("error", "zero", "skip"),
    "empty_list": ("no_positive", "one"),
}
_ENTRY = ("as", "metric", "needs", "ties", "no_positive")


@dataclass(frozen=True, slots=True)
class ProfileMetric:
    """A number that a tool reports.

    Attributes
    ----------
    called : str
        The tool's name for it.
    metric : str
        The metric of the registry that it is; empty where `needs` says what is lacking.
    needs : str
        What this version cannot count.
    ties, no_positive : str
        How equal scores and queries without a positive are read; the profile's own unless
        the entry says otherwise.
    """

    called: str
    metric: str
    needs: str
    ties: str
    no_positive: str


@dataclass(frozen=True, slots=True)
class Profile:
    """The rules by which a tool arrives at its numbers.

    Attributes
    ----------
    name, title, reference, note : str
        What it is called, which code it stands for, where that was published, and what of
        that code is not reproduced.
    ties : str
        "index" or "reversed" (the tie order, or that from its end), "grouped" (scikit-learn's
        average precision: every item stands where its group ends), or a word of `compute`.
    no_positive : str
        A word of `compute`, or "undefined": one such query and there is no number.
    tie_order : {"position", "id_desc"}
        The order that "index" and "reversed" are about.
    unretrieved, missing_query : str
        For ranked lists, see `compute`.
    empty_list : {"no_positive", "one"}
        What a query scores that has nothing to find and got nothing.
    metrics : tuple of ProfileMetric
        The tool's numbers, its headline first.
    """

    name: str
    title: str
    reference: str
    note: str
    ties: str
    no_positive: str
    tie_order: str
    unretrieved: str
    missing_query: str
    empty_list: str
    metrics: tuple[ProfileMetric, ...]

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], *, source: str = "profile") -> Profile:
        """Make a profile from the content of a TOML file.

        Raises
        ------
        ProtocolError
            Lists every fault with its place.
        """
        faults = list(_faults(content))
        if faults:
            listed = "\n".join(f"  {fault}" for fault in faults)
            raise ProtocolError(f"{source} is no valid profile:\n{listed}")
        words = {key: content.get(key, choices[0]) for key, choices in _WORDS.items()}
        metrics = tuple(
            ProfileMetric(
                called=entry["as"],
                metric=str(parse(entry["metric"])) if "metric" in entry else "",
                needs=entry.get("needs", ""),
                ties=entry.get("ties", words["ties"]),
                no_positive=entry.get("no_positive", words["no_positive"]),
            )
            for entry in content["metrics"]
        )
        return cls(**{key: content.get(key, "") for key in _TEXTS}, **words, metrics=metrics)


def list_profiles() -> list[str]:
    """Return the names of the shipped profiles, sorted.

    >>> "market-matlab" in list_profiles()
    True
    """
    return sorted(path.stem for path in (protocol_folder() / "profiles").glob("*.toml"))


def load_profile(name: str | os.PathLike[str]) -> Profile:
    """Load a shipped profile by name, or any by the path of its file.

    Raises
    ------
    ProtocolError
        If there is none of this name (close ones are offered), or the file is malformed.

    Examples
    --------
    >>> profile = load_profile("layumi")
    >>> profile.ties, profile.no_positive, profile.metrics[0].metric
    ('reversed', 'zero', 'mAP(rule=trapezoid)')
    """
    text = os.fspath(name)
    is_path = isinstance(name, os.PathLike) or text.endswith(".toml") or os.sep in text
    path = Path(text) if is_path else protocol_folder() / "profiles" / f"{text}.toml"
    if not path.is_file():
        if is_path:
            raise ProtocolError(f"{path}: no such profile file")
        near = difflib.get_close_matches(text, list_profiles(), n=3, cutoff=0.5)
        offer = f"did you mean {' or '.join(near)}?" if near else f"known: {_listed()}"
        raise ProtocolError(f"no profile is called {text!r}; {offer}")
    try:
        content = tomllib.loads(path.read_bytes().decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"{path} is not valid TOML: {error}") from None
    return Profile.from_dict(content, source=str(path))


def _listed() -> str:
    return ", ".join(list_profiles())


def _faults(content: Mapping[str, Any]) -> Iterator[str]:
    yield from _unknown(content, (*_TEXTS, *_WORDS, "metrics"), "")
    for key in _TEXTS:
        if not isinstance(content.get(key, ""), str):
            yield f"{key}: a text is needed"
    if not content.get("name"):
        yield "name: is needed"
    for key, words in _WORDS.items():
        if key in content or words[0] is None:
            yield from _wrong_word(content, key, key)
    entries = content.get("metrics")
    if not isinstance(entries, list) or not entries:
        yield "metrics: a list of tables is needed, each with 'as' and 'metric' or 'needs'"
        return
    for number, entry in enumerate(entries):
        yield from _entry_faults(entry, f"metrics[{number}]", content.get("ties"))


def _entry_faults(entry: Any, place: str, ties: Any) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield f"{place}: a table is needed"
        return
    yield from _unknown(entry, _ENTRY, f"{place}.")
    for key in ("ties", "no_positive"):
        if key in entry:
            yield from _wrong_word(entry, key, f"{place}.{key}")
    for key in ("as", "metric", "needs"):
        if key in entry and (not isinstance(entry[key], str) or not entry[key]):
            yield f"{place}.{key}: a text is needed"
            return
    if "as" not in entry:
        yield f"{place}.as: is needed"
    if ("metric" in entry) == ("needs" in entry):
        yield f"{place}: either 'metric' or 'needs' is needed"
    if "metric" in entry:
        try:
            name = str(parse(entry["metric"]))
        except ProtocolError as error:
            yield f"{place}.metric: {error}"
            return
        if entry.get("ties", ties) == "grouped" and name != "mAP":
            yield f"{place}.ties: 'grouped' is a way to read mAP, not {name}"


def _unknown(table: Mapping[str, Any], known: Sequence[str], place: str) -> Iterator[str]:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            offer = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
            yield f"{place}{key}: unknown key; {offer}"


def _wrong_word(table: Mapping[str, Any], key: str, place: str) -> Iterator[str]:
    words = [word for word in dict.fromkeys(_WORDS[key]) if word]
    if key not in table:
        yield f"{place}: is needed"
    elif table[key] not in words:
        yield f"{place}: one of {', '.join(words)} is needed, not {table[key]!r}"
