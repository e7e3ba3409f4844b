"""The built wheel, installed outside the repository, has all it needs."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and unpack it; the dependencies are those of this interpreter."""
    folder = tmp_path_factory.mktemp("wheel")
    code = (
        "import sys, hatchling.build as b; "
        "print(b.build_wheel(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, check=True,
                   capture_output=True)  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def python(installed: Path, code: str) -> str:
    """Run code that sees the unpacked wheel and not the repository."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run([sys.executable, "-c", code], cwd=installed.parent, env=environment,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_wheel_finds_its_own_protocols(installed: Path) -> None:
    out = python(
        installed,
        "import reid_vpr_eval as r; from reid_vpr_eval.protocol import protocol_folder; "
        "print(r.__file__); print(protocol_folder()); print(len(r.list_protocols())); "
        "print(r.load_protocol('market1501').name)",
    ).splitlines()
    assert out[0].startswith(str(installed))
    assert out[1] == str(installed / "reid_vpr_eval" / "protocols")
    assert int(out[2]) == len(list((ROOT / "protocols").glob("*.toml")))
    assert out[3] == "market1501"


@pytest.mark.slow
def test_the_wheel_writes_a_report(installed: Path, tmp_path: Path) -> None:
    code = f"""
import sys
import numpy as np
from pathlib import Path
import reid_vpr_eval as rve
from reid_vpr_eval.report import write_report
rng = np.random.default_rng(0)
samples = rve.Samples.from_columns(label=np.arange(30) // 3)
vectors = rng.normal(size=(30, 4))
result = rve.evaluate("labels", samples, samples, rve.Embeddings(vectors, vectors))
print(write_report([result], Path({str(tmp_path)!r})))
"""
    assert Path(python(installed, code)).is_file()
    assert (installed / "reid_vpr_eval" / "py.typed").is_file()
