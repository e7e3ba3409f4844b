"""The command line as a user meets it: files in, numbers out, and what is left behind."""

from __future__ import annotations

import csv
import filecmp
import inspect
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.io import savemat
from typer.testing import CliRunner, Result

import reid_vpr_eval as rve
from reid_vpr_eval import cli
from reid_vpr_eval.cli import base, evaluate, files, protocols
from shared_inputs import data

RULE = '[relevance]\nkind = "label"\ndifferent = ["camera"]\n'


def user(*arguments: object) -> Result:
    done = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def told(*arguments: object) -> str:
    """Return the standard output of a command that must work."""
    done = user(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*arguments: object, code: int = 1) -> str:
    done = user(*arguments)
    assert done.exit_code == code, done.output
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def numbers(*arguments: object) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(told(*arguments, "--format", "json"))
    return content


def picture(path: Path, label: int, rng: np.random.Generator) -> None:
    pixels = np.full((24, 16, 3), (40 * label, 250 - 50 * label, 120)) + rng.integers(0, 8, 3)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One small input in every form that a user may have it in."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    label = np.arange(20) % 4
    sides = {"q": (label[:8], np.arange(8) % 2), "g": (label, np.arange(20) // 4 % 3)}
    centres = rng.normal(size=(4, 6))
    vectors: dict[str, npt.NDArray[Any]] = {}
    for name, (ours, camera) in sides.items():
        found = centres[ours] + 0.9 * rng.normal(size=(len(ours), 6))
        found /= np.linalg.norm(found, axis=1, keepdims=True)
        vectors[name] = found
        np.save(folder / f"{name}.npy", found)
        pd.DataFrame({"pid": ours, "camid": camera}).to_csv(folder / f"{name}.csv", index=False)
        np.savez(folder / f"{name}.npz", label=ours, camera=camera, features=found)
    tables = [pd.read_csv(folder / f"{name}.csv").assign(split=name) for name in ("q", "g")]
    pd.concat(tables).to_csv(folder / "both.csv", index=False)
    np.save(folder / "both.npy", np.concatenate([vectors["q"], vectors["g"]]))
    similarity = vectors["q"] @ vectors["g"].T
    np.save(folder / "similarity.npy", similarity)
    np.save(folder / "distance.npy", 1 - similarity)
    order = np.argsort(-similarity, axis=1, kind="stable")
    np.save(folder / "ranked.npy", order)
    rve.RankedLists(order).save(folder / "ranked.npz")
    np.save(folder / "named.npy", np.char.add("g", order.astype(str)))
    (folder / "named.csv").write_text(
        "id,label,camera\n" + "".join(f"g{i},{a},{b}\n" for i, (a, b) in
                                      enumerate(zip(*sides["g"], strict=True)))
    )  # fmt: skip
    named = {f"{long}_{key}": value for long, name in (("query", "q"), ("gallery", "g"))
             for key, value in (("f", vectors[name]), ("label", sides[name][0][None]),
                                ("cam", sides[name][1][None]))}  # fmt: skip
    savemat(folder / "result.mat", named)
    (folder / "rule.toml").write_text(f'name = "rule"\n{RULE}')
    where = "".join(
        f'[{side}]\nwhere = {{ split = "{side[0]}" }}\n' for side in ("query", "gallery")
    )
    (folder / "where.toml").write_text(f'name = "where"\n{RULE}{where}')
    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny images under the names of Market-1501 and of place recognition, and in a zip."""
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(1)
    for side, camera in (("query", 1), ("bounding_box_test", 2)):
        for label in range(1, 5):
            picture(folder / f"market/{side}/{label:04}_c{camera}s1_000001_00.png", label, rng)
    picture(folder / "market/bounding_box_test/-1_c3s1_000001_00.png", 2, rng)
    for side, shift in (("queries", 0.0), ("database", 4.0)):
        for place in range(4):
            east = 500000 + 100 * place + shift
            picture(folder / f"places/{side}/@{east:.2f}@4000000.00@10@S@@@@@.png", place, rng)
    with zipfile.ZipFile(folder / "letters.zip", "w") as archive:
        for label in range(4):
            for drawer in range(3):
                picture(folder / "one.png", label, rng)
                archive.write(folder / "one.png", f"set/letter{label}/{drawer:02}.png")
        archive.writestr("__MACOSX/set/letter0/._00.png", b"")
    names = r"names = '(?P<label>letter\d+)/(?P<camera>\d+)\.png$'"
    (folder / "letters.toml").write_text(
        f'name = "letters"\n[query]\n{names}\n[gallery]\n{names}\n{RULE}'
    )
    return folder


#: The same evaluation, in every form.
FORMS = {
    "samples and features together": "rule.toml --query q.npz --gallery g.npz",
    "tables and features": "rule.toml --query q.csv --gallery g.csv --query-features q.npy "
    "--gallery-features g.npy",
    "one table, one matrix of features": "where.toml --query both.csv --query-features both.npy",
    "one table named twice": "where.toml --query both.csv --gallery both.csv --query-features "
    "both.npy --gallery-features both.npy",
    "one table, features by side": "where.toml --query both.csv --query-features q.npy "
    "--gallery-features g.npy",
    "MATLAB result": "rule.toml --query result.mat --gallery result.mat",
    "MATLAB result once": "rule.toml --query result.mat",
    "similarities": "rule.toml --query q.csv --gallery g.csv --similarities similarity.npy",
    "distances": "rule.toml --query q.csv --gallery g.csv --distances distance.npy",
    "one table and similarities": "where.toml --query both.csv --similarities similarity.npy",
    "ranked positions": "rule.toml --query q.csv --gallery g.csv --ranked ranked.npy",
    "saved ranked lists": "rule.toml --query q.csv --gallery g.csv --ranked ranked.npz",
    "ranked ids": "rule.toml --query q.csv --gallery named.csv --ranked named.npy",
    "another distance": "rule.toml --query q.npz --gallery g.npz --metric euclidean",
}


def spread(made: Path, line: str) -> list[object]:
    return [made / word if "." in word else word for word in line.split()]


@pytest.mark.parametrize("line", FORMS.values(), ids=FORMS)
def test_every_form_gives_the_same_numbers(made: Path, line: str) -> None:
    arrays = [np.load(made / f"{name}.npz") for name in ("q", "g")]
    sides = [rve.Samples.from_columns(label=a["label"], camera=a["camera"]) for a in arrays]
    protocol = rve.load_protocol(made / "rule.toml")
    direct = rve.evaluate(protocol, *sides, rve.Embeddings(*(a["features"] for a in arrays)))
    assert 0.3 < direct.metrics["mAP"] < 0.95
    found = numbers("run", *spread(made, line))
    assert found["metrics"] == pytest.approx(dict(direct.metrics), abs=1e-12)
    assert found["counts"]["n_positive_pairs"] == direct.counts["n_positive_pairs"]


@pytest.mark.slow
def test_images_with_the_names_of_market(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ["run", "market1501", "--query", images / "market", "--gallery", images / "market"]
    assert "n_query is 4, published 3,368 (-3,364)" in refused(*command, "--out", out)
    assert not out.exists()
    done = user(*command, "--out", out, "--expected", "warn")
    assert done.exit_code == 0
    assert done.stderr.startswith("warning: the data do not have the counts of market1501")
    assert done.stderr.endswith(f"written to {out}\n")
    assert "100.0" in done.stdout
    result = rve.Result.load(out)
    assert result.counts["n_gallery_ignored"] == 1
    assert result.rankings is not None
    assert (out / "report.html").read_text().count("data:image") > 4
    first = "query/0001_c1s1_000001_00.png"
    assert result.per_query["query_id"].iloc[0] == first


def test_images_with_the_names_of_places(images: Path) -> None:
    sides = ["--query", images / "places/queries", "--gallery", images / "places/database"]
    found = numbers("run", "pitts30k-test", *sides, "--expected", "ignore")
    assert found["counts"]["n_positive_pairs"] == 4
    assert found["metrics"]["CMC@1"] == 1


def test_a_zip_read_with_a_regular_expression(images: Path) -> None:
    """One zip on both sides: each image looks for the others."""
    found = numbers("run", images / "letters.toml", "--query", images / "letters.zip")
    assert found["counts"]["n_self_pairs"] == 12
    assert found["counts"]["n_positive_pairs"] == 24
    assert found["metrics"]["CMC@1"] == 1


def test_encoded_images_are_evaluated_as_the_images_are(images: Path, tmp_path: Path) -> None:
    for side in ("query", "bounding_box_test"):
        out = tmp_path / f"{side}.npz"
        said = told("encode", images / "market" / side, "--out", out, "--names", "market")
        assert said.endswith(f"dimensions written to {out}\n")
    ours, theirs = tmp_path / "query.npz", tmp_path / "bounding_box_test.npz"
    ignored = ("--expected", "ignore")
    encoded = numbers("run", "market1501", "--query", ours, "--gallery", theirs, *ignored)
    direct = numbers("run", "market1501", "--query", images / "market", "--gallery",
                     images / "market", *ignored)  # fmt: skip
    assert encoded["metrics"] == direct["metrics"]
    assert encoded["inputs"]["scores_fingerprint"] == direct["inputs"]["scores_fingerprint"]
    assert "suffix" in refused("encode", images / "market", "--out", tmp_path / "x.txt")
    assert "no images" in refused("encode", ours, "--out", tmp_path / "x.npz")
    assert "nonsense" in refused("encode", images / "market", "--out", tmp_path / "x.npz",
                                 "--encoder", "nonsense")  # fmt: skip
    assert not list(tmp_path.glob("x.*"))


OMNIGLOT = r"""
name = "omniglot"
[query]
names = '(?P<label>[^/]+/character\d+)/\d+_(?P<camera>\d+)\.png$'
[gallery]
names = '(?P<label>[^/]+/character\d+)/\d+_(?P<camera>\d+)\.png$'
[relevance]
kind = "label"
different = ["camera"]
[expected]
n_query = 2720
n_gallery = 2720
n_positive_pairs = 51680
"""


def test_omniglot_is_counted(tmp_path: Path) -> None:
    source = data("identity/omniglot_small1/images_background_small1.zip")
    (tmp_path / "omniglot.toml").write_text(OMNIGLOT)
    said = told("check", tmp_path / "omniglot.toml", "--query", source)
    assert "DIFFERS" not in said
    lines = {line.split()[0]: line.split()[1] for line in said.splitlines()}
    assert lines["n_label_query"] == "136"
    assert lines["n_camera_query"] == "20"


@pytest.mark.slow
def test_omniglot_is_evaluated(tmp_path: Path) -> None:
    source = data("identity/omniglot_small1/images_background_small1.zip")
    (tmp_path / "omniglot.toml").write_text(OMNIGLOT)
    found = numbers("run", tmp_path / "omniglot.toml", "--query", source)
    assert found["metrics"]["mAP"] == pytest.approx(0.247, abs=0.01)
    assert found["metrics"]["CMC@1"] == pytest.approx(0.584, abs=0.02)


# What is printed


@pytest.mark.parametrize(
    ("style", "holds"),
    [
        ("table", "protocol rule v1, judged by"),
        ("json", '"judging_hash"'),
        ("tsv", "mAP\t"),
        ("latex", "\\begin{tabular}"),
        ("torchreid", "Rank-1  : "),
        ("vpr", "R@1: "),
    ],
)
def test_formats(made: Path, style: str, holds: str) -> None:
    done = user("run", *spread(made, FORMS["samples and features together"]), "--format", style)
    assert done.exit_code == 0
    assert holds in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_the_result_alone_is_on_standard_output(made: Path, tmp_path: Path) -> None:
    line = spread(made, FORMS["samples and features together"])
    done = subprocess.run(
        [sys.executable, "-m", "reid_vpr_eval", "run", *map(str, line), "--format", "json", "--out",
         str(tmp_path / "run")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["protocol"]["name"] == "rule"
    assert done.stderr == f"written to {tmp_path / 'run'}\n"


def test_version_of_the_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reid_vpr_eval", "--version"], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout == f"reid_vpr_eval {rve.__version__}\n"
    assert done.stderr == ""


COMMANDS = {
    "run": evaluate.run, "check": evaluate.check, "conventions": evaluate.conventions,
    "encode": files.encode, "demo": files.demo, "protocols list": protocols.list_,
    "protocols show": protocols.show, "protocols check": protocols.check_file,
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_describes_every_option(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "TERMINAL_WIDTH"):
        monkeypatch.setenv(name, "200")
    said = told(*command.split(), "--help")
    for name, parameter in inspect.signature(COMMANDS[command], eval_str=True).parameters.items():
        if parameter.annotation is typer.Context:
            continue
        about = parameter.annotation.__metadata__[0].help
        assert about, f"{command}: {name} has no description"
        line = next(line for line in said.splitlines() if about in line)
        assert name.replace("_", "-") in line.lower()


@pytest.mark.parametrize("arguments", [[], ["protocols"], ["run"], ["run", "x", "--nonsense"]])
def test_wrong_usage_is_explained(arguments: list[str]) -> None:
    done = user(*arguments)
    assert done.exit_code == 2
    assert "Usage" in done.output


@pytest.mark.parametrize(
    "wrong",
    ["--workers 0", "--memory nonsense", "--memory 1.2.3", "--metric manhattan", "--format xml",
     "--top-k -1", "--expected maybe", "--keep some", "--tie-order random"],
)  # fmt: skip
def test_wrong_values_are_wrong_usage(made: Path, wrong: str) -> None:
    option, value = wrong.split()
    line = spread(made, FORMS["samples and features together"])
    said = refused("run", *line, option, value, code=2)
    assert option in said
    assert value in said or "greater" in said or "range" in said


def test_scores_come_from_one_place(made: Path) -> None:
    line = spread(made, FORMS["similarities"])
    assert "given twice" in refused("run", *line, "--distances", made / "distance.npy")
    assert "--similarities" in refused("run", *line[:-2])
    some = refused("run", *line[:-2], "--query-features", made / "q.npy")
    assert "gallery side has no features" in some


def test_colour_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert base.red("error") == "error"
    monkeypatch.setattr(sys, "stderr", terminal)
    assert base.red("error") == "\033[31merror\033[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert base.red("error") == "error"


# What is left behind

ALWAYS = {"result.json", "environment.json", "per_query.csv", "curves.csv", "ranking.npz",
          "report.html", "figures"}  # fmt: skip


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*")) if path.is_file()}  # fmt: skip


@pytest.mark.slow
def test_a_run_folder_is_complete_and_the_same_twice(made: Path, tmp_path: Path) -> None:
    line = spread(made, FORMS["samples and features together"])
    told("run", *line, "--out", tmp_path / "a")
    assert {path.name for path in (tmp_path / "a").iterdir()} == ALWAYS
    told("run", *line, "--out", tmp_path / "a")
    told("run", *line, "--out", tmp_path / "deep/er/b", "--workers", "1", "--memory", "1MiB")
    ours, theirs = contents(tmp_path / "a"), contents(tmp_path / "deep/er/b")
    assert {name for name in ours if ours[name] != theirs[name]} <= {"environment.json"}
    assert ours.keys() == theirs.keys()
    told("run", *line, "--out", tmp_path / "c", "--top-k", "3", "--no-report")
    names = {path.name for path in (tmp_path / "c").iterdir()}
    assert names == (ALWAYS | {"rankings.csv", "beside.csv"}) - {"report.html", "figures"}
    rows = list(csv.DictReader((tmp_path / "c/rankings.csv").read_text().splitlines()))
    assert {row["rank"] for row in rows} == {"1", "2", "3"}
    assert sorted(os.listdir(tmp_path)) == ["a", "c", "deep"]


@pytest.mark.slow
def test_run_folders_are_not_overwritten_by_accident(made: Path, tmp_path: Path) -> None:
    line = spread(made, FORMS["samples and features together"])
    out = tmp_path / "run"
    told("run", *line, "--out", out, "--top-k", "2")
    before = contents(out)
    other = spread(made, FORMS["similarities"])
    said = refused("run", *other, "--out", out)
    assert "other inputs" in said
    assert "--overwrite" in said
    assert "another protocol" in refused("run", "labels", *line[1:], "--out", out)
    assert contents(out) == before
    told("run", *other, "--out", out, "--overwrite", "--no-report")
    assert {path.name for path in out.iterdir()} <= ALWAYS - {"report.html"}
    assert not list(out.glob("figures/*"))
    shutil.rmtree(out)
    out.mkdir()
    (out / "figures").mkdir()
    (out / "thesis.txt").write_text("years of work")
    (out / "figures/mine.png").write_text("a night")
    said = refused("run", *line, "--out", out)
    assert "holds other files" in said
    assert "--overwrite" in said
    told("run", *line, "--out", out, "--overwrite")
    assert (out / "thesis.txt").read_text() == "years of work"
    assert (out / "figures/mine.png").read_text() == "a night"


@pytest.mark.parametrize("out", ["taken", "taken/run", "taken/deep/run"])
def test_places_that_cannot_be_written_are_found_early(
    made: Path, tmp_path: Path, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("mine")
    monkeypatch.setattr("reid_vpr_eval.runs.load_inputs", None)
    line = spread(made, FORMS["samples and features together"])
    assert "is a file" in refused("run", *line, "--out", tmp_path / out)
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_folder_without_permission(made: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    tmp_path.chmod(0o500)
    line = spread(made, FORMS["samples and features together"])
    assert "not writable" in refused("run", *line, "--out", tmp_path / "run")


def test_a_run_that_fails_while_writing_leaves_nothing(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reid_vpr_eval.report.write_report", full)
    line = spread(made, FORMS["samples and features together"])
    assert "No space left" in refused("run", *line, "--out", tmp_path / "run")
    assert not list(tmp_path.iterdir())


def interrupted(code: str, after: float, *arguments: str) -> tuple[int, str, str]:
    """Run a command line, interrupt it some seconds after it began; return how it ended."""
    code = (
        "import signal; own = signal.signal; own(signal.SIGINT, signal.default_int_handler)\n"
        "def told(*given):\n"
        "    own(*given); signal.signal = own; print('ready', flush=True)\n"
        f"from reid_vpr_eval.__main__ import main; {code}; signal.signal = told; main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    ) as running:  # fmt: skip
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        time.sleep(after)
        running.send_signal(signal.SIGINT)
        said, complaint = running.communicate(timeout=120)
    return running.returncode, said, complaint


SAYS_INTERRUPTED = (130, "", "interrupted; nothing was left half-written\n")


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.0, 0.1, 0.3, 0.6, 1.0, 4.0])
def test_interrupting_leaves_no_half_written_run(tmp_path: Path, after: float) -> None:
    out = tmp_path / "demo"
    assert interrupted("pass", after, "demo", "--out", str(out)) == SAYS_INTERRUPTED
    left = {path.name for path in out.iterdir()} if out.exists() else set()
    assert left <= {"world"}
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize(
    "library",
    [
        "try:\n    time.sleep(2)\n"
        "except BaseException as error:\n    raise ValueError from error\n",
        "try:\n    time.sleep(2)\nexcept BaseException:\n    pass\n",
        "import weakref\nclass A: pass\na = A()\n"
        "ref = weakref.ref(a, lambda _: time.sleep(2))\ndel a\n",
    ],
    ids=["wraps", "swallows", "ignores"],
)
def test_interrupting_an_import_that_hides_it(tmp_path: Path, library: str) -> None:
    (tmp_path / "hides_it.py").write_text("import time\n" + library)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
        "import time; import reid_vpr_eval.cli.base as base; "
        "base.load = lambda: __import__('hides_it'); "
        "base.app.command('slow')(base.guarded(lambda: [base.load(), time.sleep(9)]))"
    )
    assert interrupted(code, 1.0, "slow") == SAYS_INTERRUPTED


# Paths and tables as people have them


@pytest.mark.slow
def test_paths_with_spaces_and_other_letters(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "Prüfung 1 — 画像"
    shutil.copytree(made, folder)
    line = spread(folder, FORMS["tables and features"])
    told("run", *line, "--out", folder / "mein Lauf")
    monkeypatch.chdir(folder)
    relative = FORMS["tables and features"].split()
    told("run", *relative, "--out", "relative/run")
    told("run", *relative, "--out", "./relative/run/")
    assert filecmp.cmp("mein Lauf/result.json", "relative/run/result.json", shallow=False)
    assert not list(folder.rglob(".*"))


@pytest.mark.parametrize(
    "written",
    [
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode() + b"\r\n\r\n",
        lambda text: "\n".join(f'"{line}"'.replace(",", '","') for line in text.split()).encode(),
        lambda text: text.replace(",", ", ").encode(),
    ],
    ids=["mark of byte order", "Windows", "both and blank lines", "quoted", "spaces"],
)
def test_tables_from_other_programs(made: Path, tmp_path: Path, written: Any) -> None:
    (tmp_path / "q.csv").write_bytes(written((made / "q.csv").read_text()))
    line = spread(made, FORMS["similarities"])
    expected = numbers("run", *line)
    line[line.index(made / "q.csv")] = tmp_path / "q.csv"
    assert numbers("run", *line) == expected


# Other commands


def test_check_compares_with_the_published_counts(made: Path, tmp_path: Path) -> None:
    expected = "[expected]\nn_query = 9\nn_gallery = [20, 21]\nn_no_positive = 0\n"
    (tmp_path / "wrong.toml").write_text(f'name = "wrong"\n{RULE}{expected}')
    sides = ["--query", made / "q.csv", "--gallery", made / "g.csv"]
    done = user("check", tmp_path / "wrong.toml", *sides)
    assert done.exit_code == 1
    lines = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert lines["n_query"] == ["8", "published", "9", "DIFFERS"]
    assert lines["n_gallery"] == ["20", "published", "20", "or", "21"]
    assert lines["n_no_positive"] == ["0", "published", "0"]
    assert "published" not in told("check", made / "rule.toml", *sides)


def test_check_looks_for_leaks(made: Path, tmp_path: Path) -> None:
    with np.load(made / "q.npz") as query, np.load(made / "g.npz") as gallery:
        columns = {name: gallery[name].copy() for name in gallery.files}
        columns["features"][[1, 7]] = query["features"][[1, 2]]
        columns["label"][1], columns["label"][7] = query["label"][1], query["label"][2] + 1
        columns["camera"][[1, 7]] = 2
    np.savez(tmp_path / "g.npz", **columns)
    sides = ["--query", made / "q.npz", "--gallery", tmp_path / "g.npz"]
    said = told("check", made / "rule.toml", *sides, "--dedup")
    assert "2 query vectors stand in the ranked gallery" in said
    assert "1 of them as a positive, 1 as a negative" in said
    assert "2 query vectors stand in" in told("check", made / "rule.toml", *sides)
    assert "stand in" not in told("check", made / "rule.toml", "--query", made / "q.csv",
                                  "--gallery", made / "g.csv")  # fmt: skip
    sides[-1] = made / "g.npz"
    assert "no query vector stands in" in told("check", made / "rule.toml", *sides, "--dedup")
    bare = refused("check", made / "rule.toml", "--query", made / "q.csv", "--dedup")
    assert "--query-features" in bare


@pytest.mark.slow
def test_protocols_are_listed_shown_and_checked(tmp_path: Path) -> None:
    listed = told("protocols", "list")
    for name in rve.list_protocols():
        assert name in listed
        shown = told("protocols", "show", name)
        (tmp_path / f"{name}.toml").write_text(shown)
        again = rve.load_protocol(tmp_path / f"{name}.toml")
        shipped = rve.load_protocol(name)
        assert again == shipped or again.resolved() == shipped.resolved()
        assert (again.judging_hash, again.reporting_hash) == (
            shipped.judging_hash, shipped.reporting_hash)  # fmt: skip
        assert shipped.judging_hash in shown
        assert tomllib.loads(shown)["name"] == name
        assert "a valid protocol" in told("protocols", "check", tmp_path / f"{name}.toml")
    assert "(withdrawn)" in listed


@pytest.mark.parametrize("command", ["run", "check", "protocols show"])
def test_unknown_protocols(command: str, made: Path) -> None:
    rest = [] if command == "protocols show" else ["--query", made / "q.csv"]
    said = refused(*command.split(), "market1502", *rest, code=2)
    assert said.startswith(
        "error: no protocol is called 'market1502'; did you mean market1501"
    )
    said = refused(*command.split(), made / "none.toml", *rest, code=2)
    assert "none.toml: no such protocol file" in said


@pytest.mark.slow
@settings(max_examples=12)
@given(memory=st.sampled_from(["256KiB", "1MiB", "3mb", "0.5GiB"]), workers=st.integers(1, 4))
def test_memory_and_threads_change_nothing(memory: str, workers: int) -> None:
    """The vectors alone are larger than the smallest of these."""
    rng = np.random.default_rng(7)
    label = np.arange(2500) % 25
    query = rve.Samples.from_columns(label=label[:30])
    gallery = rve.Samples.from_columns(label=label)
    vectors = rng.normal(size=(2500, 120)).astype(np.float32).round(1)
    scores = rve.Embeddings(vectors[:30] + np.float32(0.5), vectors)
    assert vectors.nbytes > 1 << 20
    results = [rve.evaluate("labels", query, gallery, scores, **options, top_k=4)
               for options in ({}, {"memory": memory, "workers": workers})]  # fmt: skip
    assert results[0].document() == results[1].document()
    pd.testing.assert_frame_equal(results[0].per_query, results[1].per_query)
