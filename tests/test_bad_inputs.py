"""What is wrong with an input is said with its place and how to mend it."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy.io import savemat
from typer.testing import CliRunner, Result

import reid_vpr_eval as rve
from reid_vpr_eval.cli import app
from reid_vpr_eval.errors import ReidVprEvalError
from reid_vpr_eval.protocol import Protocol
from report_results import without_figures

MOST_LINES = 6


def user(*arguments: object) -> Result:
    """Type a command and insist on what holds for every answer."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert "Traceback" not in done.output
    return done


def refused(*arguments: object, code: int = 1) -> str:
    """Type a command that must fail in a few lines, and return what it says."""
    done = user(*arguments)
    assert done.exit_code == code, done.output
    assert done.stdout == ""
    if code == 1:
        assert done.stderr.startswith("error: ")
        assert len(done.stderr.splitlines()) <= MOST_LINES
    return done.stderr


@dataclass
class World:
    """A small sound input, to be broken in one place."""

    query: dict[str, Any] = field(default_factory=dict)
    gallery: dict[str, Any] = field(default_factory=dict)
    vectors: list[npt.NDArray[Any]] = field(default_factory=list)
    matrix: npt.NDArray[Any] | None = None
    higher: bool = True
    lists: npt.NDArray[Any] | None = None
    rule: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)

    def protocol(self) -> Protocol:
        return Protocol.from_dict({"name": "small", "relevance": self.rule, **self.parts})

    def scores(self) -> Any:
        if self.lists is not None:
            return rve.RankedLists(self.lists)
        if self.matrix is not None:
            return rve.ScoreMatrix(self.matrix, higher_is_better=self.higher)
        return rve.Embeddings(*self.vectors)

    def evaluate(self, **options: Any) -> Any:
        sides = rve.Samples(self.query), rve.Samples(self.gallery)
        return rve.evaluate(self.protocol(), *sides, self.scores(), **options)

    def command(self, folder: Path) -> list[object]:
        """Write everything to files and return the command that evaluates them."""
        command: list[object] = ["run", folder / "small.toml"]
        self.protocol().save(folder / "small.toml")
        for name, columns in (("query", self.query), ("gallery", self.gallery)):
            pd.DataFrame(columns).to_csv(folder / f"{name}.csv", index=False)
            command += [f"--{name}", folder / f"{name}.csv"]
        arrays = {f"{n}-features": v for n, v in zip(("query", "gallery"), self.vectors,
                                                     strict=False)}  # fmt: skip
        if self.matrix is not None:
            arrays = {"similarities" if self.higher else "distances": self.matrix}
        if self.lists is not None:
            arrays = {"ranked": self.lists}
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
            command += [f"--{name}", folder / f"{name}.npy"]
        return command


def people() -> World:
    rng = np.random.default_rng(0)
    label = np.arange(12) % 4
    query = {"id": [f"q{i}" for i in range(6)], "label": label[:6], "camera": [0] * 6}
    gallery = {"id": [f"g{i}" for i in range(12)], "label": label, "camera": [0, 1, 2] * 4}
    return World(
        query, gallery, [rng.normal(size=(6, 5)), rng.normal(size=(12, 5))],
        rule={"kind": "label", "different": ["camera"]},
    )  # fmt: skip


def places() -> World:
    world = people()
    world.query = {"lat": np.full(6, 48.1), "lon": np.linspace(-70.001, -70, 6)}
    world.gallery = {"lat": np.full(12, 48.1), "lon": np.linspace(-70.001, -70, 12)}
    world.rule = {"kind": "within", "coordinates": "latlon"}
    return world


def poke(array: npt.NDArray[Any], place: Any, value: float) -> npt.NDArray[Any]:
    changed = array.copy()
    changed[place] = value
    return changed


def with_(values: Any, place: int, value: Any) -> list[Any]:
    changed = list(values)
    changed[place] = value
    return changed


def matrix(value: float, higher: bool = True) -> Callable[[World], None]:
    def change(world: World) -> None:
        world.matrix = poke(np.arange(72.0).reshape(6, 12), (4, 7), value)
        world.higher = higher

    return change


def lists(array: Any) -> Callable[[World], None]:
    return lambda world: setattr(world, "lists", np.asarray(array))


def vectors(side: int, change: Callable[[Any], Any]) -> Callable[[World], None]:
    return lambda world: world.vectors.__setitem__(side, change(world.vectors[side]))


#: What is broken, the error, and what its message must hold (regular expressions).
BROKEN: dict[str, tuple[Callable[[World], Any], type[Exception], list[str]]] = {
    "a vector short": (
        vectors(0, lambda v: v[:5]), rve.AlignmentError, ["5", "6", "query", "row|order"]),
    "a vector more": (
        vectors(1, lambda v: v[[*range(12), 0]]), rve.AlignmentError, ["13", "12", "gallery"]),
    "NaN in a vector": (
        vectors(0, lambda v: poke(v, (3, 2), np.nan)), rve.ScoreError, ["query", r"\b3\b"]),
    "infinite vectors": (
        vectors(1, lambda v: poke(v, [7, 9], np.inf)), rve.ScoreError, ["gallery", r"7, 9"]),
    "a zero vector": (
        vectors(1, lambda v: poke(v, 8, 0)), rve.ScoreError,
        ["gallery", r"\b8\b", "zero", "cosine"]),
    "dimensions differ": (
        vectors(0, lambda v: v[:, :4]), rve.ScoreError, ["4 dim", "5", "same model"]),
    "features of one number": (
        vectors(0, lambda v: v[:, 0]), ReidVprEvalError, ["shape", r"\(6,\)"]),
    "features are text": (
        vectors(0, lambda v: v.astype("U4")), ReidVprEvalError, ["number", "<U4"]),
    "NaN similarity": (matrix(np.nan), rve.ScoreError, ["NaN", r"\b4\b"]),
    "infinite similarity": (matrix(np.inf), rve.ScoreError, ["infinite|finite", r"\b4\b"]),
    "infinite distance": (matrix(np.inf, False), rve.ScoreError, ["finite", r"\b4\b"]),
    "matrix turned": (
        lambda w: setattr(w, "matrix", np.ones((12, 6))), rve.AlignmentError, ["12", "6", "row"]),
    "a list short": (lists([[0, 1]] * 5), rve.AlignmentError, ["5 ranked lists", "6 queries"]),
    "a position past the end": (
        lists([[0, 1]] * 5 + [[3, 12]]), rve.AlignmentError, ["list 5", "12", "0 to 11"]),
    "an item twice": (lists([[0, 1]] * 5 + [[3, 3]]), rve.ScoreError, [r"\b5\b", r"\b3\b"]),
    "a position below -1": (lists([[0, -2]] * 6), rve.ScoreError, ["-2", "-1"]),
    "ids that are unknown": (
        lists([["g1", "g2"]] * 5 + [["g3", "x9"]]), rve.AlignmentError, ["'x9'", "list 5"]),
    "an id twice": (
        lambda w: w.gallery.update(id=with_(w.gallery["id"], 5, "g2")),
        rve.AlignmentError, ["g2", "2, 5", "unique"]),
    "an id on both sides, labels differ": (
        lambda w: w.gallery.update(id=with_(w.gallery["id"], 5, "q0")),
        rve.AlignmentError, ["q0", "label"]),
    "no label": (lambda w: w.query.pop("label"), rve.FormatError, ["label", "pid", "camera"]),
    "no camera": (lambda w: w.gallery.pop("camera"), rve.FormatError, ["camera", "camid", "label"]),
    "a column and its alias": (
        lambda w: w.query.update(pid=w.query["label"]), rve.FormatError, ["label", "pid", "drop"]),
    "a label missing": (
        lambda w: w.query.update(label=with_(w.query["label"], 2, None)),
        rve.FormatError, ["label", r"rows 2\b", "-1"]),
    "a label NaN": (
        lambda w: w.query.update(label=with_(w.query["label"].astype(float), 2, np.nan)),
        rve.FormatError, ["label", r"rows 2\b"]),
    "a label fractional": (
        lambda w: w.gallery.update(label=with_(w.gallery["label"].astype(float), 4, 1.5)),
        rve.FormatError, ["label", "row 4", r"1\.5", "integers or strings"]),
    "labels of two kinds": (
        lambda w: w.gallery.update(label=[f"p{i}" for i in w.gallery["label"]]),
        ReidVprEvalError, ["label", "integers", "strings"]),
    "a rule with '-1' for -1": (
        lambda w: w.rule.update(ignore=[{"gallery": {"label": ["-1"]}}]),
        ReidVprEvalError, ["'-1'", "integers"]),
    "a rule with -1 for '-1'": (
        lambda w: [s.update(label=[f"p{i}" for i in s["label"]]) for s in (w.query, w.gallery)]
        and w.rule.update(ignore=[{"gallery": {"label": [-1]}}]),
        ReidVprEvalError, ["-1", "strings"]),
    "the one positive is on the same camera": (
        lambda w: w.gallery.update(camera=with_([7] * 12, 0, 0), label=[0] + [9] * 11),
        rve.RelevanceError, ["6 queries", "same camera", "1|2"]),
    "no label in common": (
        lambda w: w.query.update(label=[90] * 6), rve.RelevanceError, ["6 queries", "label"]),
    "one camera": (
        lambda w: w.gallery.update(camera=[0] * 12),
        rve.RelevanceError, ["'camera'", "one value 0", "take it out"]),
    "a camera missing": (
        lambda w: w.gallery.update(camera=with_(w.gallery["camera"], 3, None)),
        rve.FormatError, ["camera", r"\b3\b"]),
    "counts not met": (
        lambda w: w.parts.update(expected={"n_query": 7, "n_gallery": [12, 13]}),
        rve.ProtocolError, ["n_query is 6, published 7", r"\(-1\)", "--expected warn"]),
    "where of another kind": (
        lambda w: w.parts.update(query={"where": {"camera": "0"}}),
        rve.ProtocolError, ["query", "camera", "'0'", "integers"]),
    "where without column": (
        lambda w: w.parts.update(gallery={"where": {"split": "test"}}),
        rve.FormatError, ["gallery", "split", "columns: camera"]),
    "where leaves nothing": (
        lambda w: w.parts.update(gallery={"where": {"camera": 8}}),
        rve.FormatError, ["gallery", "camera = 8", "0, 1, 2"]),
    "columns name one that is absent": (
        lambda w: w.parts.update(query={"columns": {"label": "floor"}}),
        rve.FormatError, ["query", "floor", "columns: camera"]),
    "a metric that is not": (
        lambda w: w.parts.update(report={"metrics": ["mAPP"]}), ReidVprEvalError, ["mAPP"]),
    "a metric with two meanings": (
        lambda w: w.parts.update(report={"metrics": ["recall@5"]}),
        ReidVprEvalError, ["IR-recall@5", "CMC@5|R@5"]),
}  # fmt: skip

#: The same for places.
LOST: dict[str, tuple[Callable[[World], Any], type[Exception], list[str]]] = {
    "latitude and longitude swapped": (
        lambda w: [s.update(lat=s["lon"], lon=s["lat"]) for s in (w.query, w.gallery)]
        and w.query.update(lat=np.full(6, 100.0)),
        rve.RelevanceError, ["lat", "swapped"]),
    "latitude out of range": (
        lambda w: w.query.update(lat=with_(w.query["lat"], 3, 93.0)),
        rve.RelevanceError, ["lat", "93", r"\b3\b"]),
    "longitude out of range": (
        lambda w: w.gallery.update(lon=with_(w.gallery["lon"], 3, 361.0)),
        rve.RelevanceError, ["lon", "361", r"\b3\b"]),
    "a latitude missing": (
        lambda w: w.query.update(lat=with_(w.query["lat"], 3, None)),
        rve.FormatError, ["lat", r"\b3\b"]),
    "a latitude is text": (
        lambda w: w.query.update(lat=["north"] * 6), rve.FormatError, ["lat", "north", "numbers"]),
    "no coordinates": (lambda w: w.query.pop("lon"), rve.FormatError, ["lon", "longitude"]),
    "utm without utm": (
        lambda w: w.rule.update(coordinates="utm"), rve.FormatError, ["east", "utm_east"]),
    "nothing near": (
        lambda w: w.query.update(lat=np.full(6, 40.0)), rve.RelevanceError, ["6 queries", "25"]),
}  # fmt: skip

CASES = [
    *(pytest.param(people, *case, id=name) for name, case in BROKEN.items()),
    *(pytest.param(places, *case, id=name) for name, case in LOST.items()),
]


@pytest.mark.parametrize(("make", "breaks", "kind", "says"), CASES)
def test_broken_input_in_python(
    make: Callable[[], World], breaks: Callable[[World], Any], kind: type[Exception],
    says: list[str],
) -> None:  # fmt: skip
    world = make()
    breaks(world)
    with pytest.raises(kind) as caught:
        world.evaluate()
    assert isinstance(caught.value, ReidVprEvalError | ValueError)
    for pattern in says:
        assert re.search(pattern, str(caught.value)), (pattern, str(caught.value))


@pytest.mark.parametrize(("make", "breaks", "kind", "says"), CASES)
def test_broken_input_as_a_user(
    make: Callable[[], World], breaks: Callable[[World], Any], kind: type[Exception],
    says: list[str], tmp_path: Path,
) -> None:  # fmt: skip
    world = make()
    breaks(world)
    command = world.command(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    said = refused(*command, "--out", tmp_path / "run")
    assert sorted(tmp_path.rglob("*")) == before
    for pattern in says:
        assert re.search(pattern, said), (pattern, said)


@pytest.mark.parametrize("make", [people, places])
def test_the_input_is_sound_before_it_is_broken(
    make: Callable[[], World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_figures(monkeypatch)
    expected = make().evaluate().metrics["mAP"]
    done = user(*make().command(tmp_path), "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert rve.Result.load(tmp_path / "run").metrics["mAP"] == expected
    assert "</html>" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize("side", ["query", "gallery"])
def test_an_empty_side(side: str) -> None:
    world = people()
    setattr(world, side, {name: values[:0] for name, values in getattr(world, side).items()})
    with pytest.raises(ReidVprEvalError, match=side):
        world.evaluate()
    number = ["query", "gallery"].index(side)
    world.vectors[number] = world.vectors[number][:0]
    with pytest.raises(ReidVprEvalError, match=side):
        world.evaluate()


@pytest.mark.parametrize(
    ("option", "kind", "says"),
    [
        ({"strata": [1, 2]}, rve.AlignmentError, r"strata have the shape \(2,\).*12 gallery rows"),
        ({"strata": "city"}, rve.FormatError, "no column 'city'"),
        ({"tie_order": [1, 2]}, rve.AlignmentError, "tie_order.*12 gallery rows"),
        ({"tie_order": "random"}, ReidVprEvalError, "random"),
        ({"top_k": -1}, ReidVprEvalError, "top_k = -1"),
        ({"memory": "nonsense"}, ReidVprEvalError, "512MiB"),
        ({"keep": "some"}, ReidVprEvalError, "all, first"),
        ({"expected": "maybe"}, rve.ProtocolError, "enforce, warn, ignore"),
        ({"gallery_slice": (5, 99)}, rve.AlignmentError, "99"),
    ],
)
def test_options_that_do_not_fit(option: dict[str, Any], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        people().evaluate(**option)


#: Protocol files that are wrong in one place, and what is said of it.
PROTOCOLS = {
    "not TOML": ('name = "x\n', ["not valid TOML", "line 1"]),
    "not UTF-8": ('name = "\udcff"\n', ["not valid TOML"]),
    "empty": ("", ["name: is needed", "relevance: is needed"]),
    "unknown table": ('[relevence]\nkind = "label"\n', ["relevence: unknown", "'relevance'"]),
    "unknown key": ('[relevance]\nkind = "label"\ndiferent = ["camera"]\n',
                    [r"relevance\.diferent: unknown key; did you mean 'different'"]),
    "unknown key far from any": ('[relevance]\nkind = "label"\nzzz = 1\n',
                                 [r"relevance\.zzz: unknown key; known here: .*different"]),
    "unknown key in a side": ('[relevance]\nkind = "label"\n[gallery]\nfoldr = "a"\n',
                              [r"gallery\.foldr: unknown key", "'folder'"]),
    "unknown key in ignore": ('[relevance]\nkind = "label"\nignore = [{ sme = ["a"] }]\n',
                              [r"relevance\.ignore\.0\.sme: unknown key", "'same'"]),
    "unknown key of the interval": (
        '[relevance]\nkind = "label"\n[report]\ninterval = { levl = 0.9 }\n',
        [r"report\.interval\.levl", "'level'"]),
    "unknown kind": ('[relevance]\nkind = "labels"\n', [r"relevance\.kind: one of label, within"]),
    "no kind": ("[relevance]\nradius = 3.0\n", [r"relevance\.kind: one of label, within"]),
    "a key of the other kind": ('[relevance]\nkind = "label"\nradius = 3.0\n',
                                [r"relevance\.radius: unknown key"]),
    "text for a number": ('[relevance]\nkind = "within"\nradius = "25"\n',
                          [r"relevance\.radius", "'25'"]),
    "a radius of nothing": ('[relevance]\nkind = "within"\nradius = 0\n',
                            [r"relevance\.radius", "greater than 0"]),
    "a negative radius in a list": ('[relevance]\nkind = "within"\nradius = [25, -5]\n',
                                    [r"relevance\.radius", "greater than 0"]),
    "an infinite radius": ('[relevance]\nkind = "within"\nradius = inf\n', [r"relevance\.radius"]),
    "text for a list": ('[relevance]\nkind = "label"\ndifferent = "camera"\n',
                        [r"relevance\.different", "list", "'camera'"]),
    "an unknown policy": ('[relevance]\nkind = "label"\n[evaluation]\nno_positive = "nil"\n',
                          [r"evaluation\.no_positive", "skip", "'nil'"]),
    "a metric that is not": ('[relevance]\nkind = "label"\n[report]\nmetrics = ["CMC@0"]\n',
                             ["CMC@0"]),
    "no metrics": ('[relevance]\nkind = "label"\n[report]\nmetrics = []\n', [r"report\.metrics"]),
    "a spelling without k": ('[relevance]\nkind = "label"\n[report]\nspelling = "R@k"\n',
                             [r"report\.spelling", r"must hold \{k\} once"]),
    "a spelling with other braces": (
        '[relevance]\nkind = "label"\n[report]\nspelling = "R@{k}{x}{0}"\n',
        [r"report\.spelling", r"no other braces"]),
    "a grammar that is not": ('[relevance]\nkind = "label"\n[query]\nnames = "markt"\n',
                              ["unknown grammar of names 'markt'", "market", "query"]),
    "a broken expression": ('[relevance]\nkind = "label"\n[gallery]\nnames = "(?P<label>"\n',
                            ["no regular expression", "gallery"]),
    "a count below zero": ('[relevance]\nkind = "label"\n[expected]\nn_query = -1\n',
                           [r"expected\.n_query"]),
    "a bad name": ('name = "A B"\n[relevance]\nkind = "label"\n', ["name: ", "'A B'"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "says"), PROTOCOLS.values(), ids=PROTOCOLS)
def test_protocol_files(text: str, says: list[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    named = text if text.startswith("name") or not text else f'name = "mine"\n{text}'
    path.write_bytes(named.encode(errors="surrogateescape"))
    said = refused("protocols", "check", path)
    for pattern in [*says, re.escape(str(path))]:
        assert re.search(pattern, said), (pattern, said)


def bytes_of(save: Callable[..., Any], *arrays: Any, **named: Any) -> bytes:
    stream = io.BytesIO()
    save(stream, *arrays, **named)
    return stream.getvalue()


def zipped(**files: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


CSV = b"label,camera\n" + b"1,0\n2,0\n" * 3
NPY = bytes_of(np.save, np.eye(6))
NPZ = bytes_of(np.savez, label=np.arange(6), camera=np.zeros(6, int), features=np.eye(6))
OBJECTS = bytes_of(np.save, np.array([{"a": 1}] * 6, object), allow_pickle=True)
MAT = bytes_of(savemat, {"query_f": np.eye(6), "query_label": np.arange(6)})

#: Files that cannot be a query side: name, content, and what is said.
FILES: dict[str, tuple[str, bytes | None, list[str]]] = {
    "absent": ("q.csv", None, ["no such file", "query"]),
    "empty table": ("q.csv", b"", ["empty"]),
    "only column names": ("q.csv", b"label,camera\n", ["no rows", "label"]),
    "semicolons": ("q.csv", CSV.replace(b",", b";"), ["';'", "comma-separated"]),
    "a cell too many": ("q.csv", CSV + b"3,0,9\n", ["line 8", "3 cells", "2 columns"]),
    "a cell too few": ("q.csv", CSV + b"3\n", ["line 8", "1 cell"]),
    "an open quotation": ("q.csv", CSV + b'"3,0\n', ["quotation"]),
    "a column name twice": ("q.csv", b"label,label\n1,2\n", ["'label'", "more than once"]),
    "not UTF-8": ("q.csv", "label,town\n1,Köln\n".encode("latin1"), ["UTF-8"]),
    "UTF-16": ("q.csv", CSV.decode().encode("utf-16"), ["UTF-16"]),
    "labels that are too large": (
        "q.csv", CSV.replace(b"1,", b"99999999999999999999,"),
        ["label", "query side", "use one kind"]),
    "an image named table": ("q.csv", b"\x89PNG\r\n\x1a\n" + bytes(30), ["a PNG image", "suffix"]),
    "an array named table": ("q.csv", NPY, ["NumPy array", "suffix"]),
    "a table named array": ("q.npz", CSV, [r"\.npz", "text"]),
    "unknown suffix": ("q.xyz", CSV, ["'.xyz'", r"\.csv"]),
    "features alone": ("q.npy", NPY, ["features but no samples", "table"]),
    "truncated archive": ("q.npz", NPZ[:-70], ["truncated|damaged", "again"]),
    "truncated inside": ("q.npz", NPZ[:200] + NPZ[420:], ["truncated|damaged", "again"]),
    "archive of nothing": ("q.npz", bytes_of(np.savez), ["nothing"]),
    "archive of objects": (
        "q.npz", bytes_of(np.savez, label=np.array([{}] * 3, object)), ["pickle", "plain arrays"]),
    "rows that differ": (
        "q.npz", bytes_of(np.savez, label=np.arange(5), features=np.eye(6)),
        ["label: 5", "features: 6"]),
    "two matrices": (
        "q.npz", bytes_of(np.savez, label=np.arange(6), a=np.eye(6), b=np.eye(6)),
        ["several matrices", "'features'"]),
    "truncated MATLAB file": ("q.mat", MAT[:-40], ["truncated|damaged"]),
    "MATLAB file of something else": (
        "q.mat", bytes_of(savemat, {"speed": np.eye(3)}), ["query_f", "speed"]),
    "MATLAB 7.3": ("q.mat", b"MATLAB 7.3 MAT-file" + bytes(600), ["7.3", "-v7"]),
    "truncated zip": ("q.zip", zipped(a="x")[:-9], ["truncated|damaged"]),
    "a zip without images": ("q.zip", zipped(a="x"), ["no image", ".png"]),
    "a list without names": ("q.txt", b"# nothing\n\n", ["no name"]),
    "a list of pairs": ("q.txt", b"a.jpg b.jpg\n", ["line 1", "two images", "one list a side"]),
    "a list of three columns": ("q.txt", b"a.jpg 1 2\n", ["line 1", "3 columns"]),
}


@pytest.mark.parametrize(("name", "content", "says"), FILES.values(), ids=FILES)
def test_files_that_are_no_side(
    name: str, content: bytes | None, says: list[str], tmp_path: Path
) -> None:
    command = people().command(tmp_path)
    path = tmp_path / name
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
    command[command.index("--query") + 1] = path
    before = sorted(tmp_path.rglob("*"))
    said = refused(*command, "--out", tmp_path / "run")
    assert sorted(tmp_path.rglob("*")) == before
    named = [] if "query side" in says else [re.escape(name)]
    for pattern in [*says, *named]:
        assert re.search(pattern, said), (pattern, said)


#: Files of scores that cannot be read: option, name, content, and what is said.
SCORES: dict[str, tuple[str, str, bytes | None, list[str]]] = {
    "features absent": ("query-features", "f.npy", None, ["no such file", "features"]),
    "features truncated": ("query-features", "f.npy", NPY[:-9], ["truncated|damaged"]),
    "features a stub": ("query-features", "f.npy", NPY[:20], ["truncated|damaged"]),
    "features of objects": ("query-features", "f.npy", OBJECTS, ["pickle", "plain arrays"]),
    "features a table": ("query-features", "f.csv", CSV, [r"\.npy", r"\.csv"]),
    "features in three dimensions": (
        "query-features", "f.npy", bytes_of(np.save, np.zeros((6, 2, 2))), [r"\(6, 2, 2\)"]),
    "matrix absent": ("similarities", "s.npy", None, ["no such file", "matrix"]),
    "matrix a vector": ("similarities", "s.npy", bytes_of(np.save, np.zeros(6)), [r"\(6,\)"]),
    "matrix with NaN": (
        "distances", "s.npy", bytes_of(np.save, np.full((6, 12), np.nan)), ["NaN", "row"]),
    "matrix too small": ("similarities", "s.npy", NPY, ["6 gallery rows", "12 samples"]),
    "lists absent": ("ranked", "r.npy", None, ["no such file", "ranked lists"]),
    "lists a table": ("ranked", "r.csv", CSV, [r"\.npy"]),
    "lists truncated": ("ranked", "r.npz", NPZ[:-50], ["truncated|damaged"]),
    "lists under another name": ("ranked", "r.npz", NPZ, ["'indices'", "features"]),
    "lists of objects": ("ranked", "r.npy", OBJECTS, ["pickle"]),
    "lists of fractions": (
        "ranked", "r.npy", bytes_of(np.save, np.full((6, 2), 0.5)), ["0.5|whole|integer"]),
    "lists a vector": (
        "ranked", "r.npy", bytes_of(np.save, np.arange(6)), [r"\(6,\)|shape|dimension"]),
}  # fmt: skip


@pytest.mark.parametrize(("option", "name", "content", "says"), SCORES.values(), ids=SCORES)
def test_files_that_are_no_scores(
    option: str, name: str, content: bytes | None, says: list[str], tmp_path: Path
) -> None:
    world = people()
    command = world.command(tmp_path)
    if option == "query-features":
        command[command.index("--query-features") + 1] = tmp_path / name
    else:
        start = command.index("--query-features")
        command = [*command[:start], f"--{option}", tmp_path / name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    said = refused(*command, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()
    for pattern in [*says, re.escape(name)]:
        assert re.search(pattern, said), (pattern, said)


def test_a_damaged_image_is_named(tmp_path: Path) -> None:
    for side in ("query", "gallery"):
        (tmp_path / side).mkdir()
        for number in range(2):
            (tmp_path / side / f"000{number}_c{number + 1}s1_000001_00.jpg").write_bytes(b"no")
    command = ["run", "market1501", "--expected", "ignore", "--query", tmp_path / "query"]
    said = refused(*command, "--gallery", tmp_path / "gallery", "--out", tmp_path / "run")
    assert "0000_c1s1_000001_00.jpg" in said
    assert not (tmp_path / "run").exists()


def test_names_that_do_not_fit_are_shown(tmp_path: Path) -> None:
    (tmp_path / "holiday 3.jpg").write_bytes(b"")
    said = refused("run", "market1501", "--query", tmp_path, "--gallery", tmp_path)
    assert "1 of 1 name does" in said
    assert "'holiday 3.jpg'" in said
    assert "0002_c1s1_000451_03.jpg" in said


def test_numpy_and_pandas_stay_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        people().evaluate()
