"""The container of saved values: whole files or none, and nothing but what was saved."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from reid_vpr_eval.archive import canonical_json, read_archive, write_archive, write_atomically
from reid_vpr_eval.errors import FormatError, InputNotFoundError


def save(path: Path, *, version: int = 1, kind: str = "thing") -> None:
    arrays = {"b": np.arange(1000), "a": np.array(["x", "ü"])}
    write_archive(path, kind=kind, version=version, arrays=arrays, header={"note": "é"})


def test_a_saved_value_comes_back(tmp_path: Path) -> None:
    save(tmp_path / "new" / "folder" / "one.bin")
    header, arrays = read_archive(tmp_path / "new" / "folder" / "one.bin", kind="thing", version=1)
    assert header == {"kind": "thing", "version": 1, "note": "é"}
    assert arrays["a"].tolist() == ["x", "ü"]
    assert arrays["b"].tolist() == list(range(1000))
    assert sorted(arrays) == ["a", "b"]


def test_the_order_of_arrays_changes_no_byte(tmp_path: Path) -> None:
    save(tmp_path / "one")
    arrays = {"a": np.array(["x", "ü"]), "b": np.arange(1000)}
    write_archive(tmp_path / "two", kind="thing", version=1, arrays=arrays, header={"note": "é"})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("broken", ["write", "replace"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, error: type[BaseException]
) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"before")

    def interrupt(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, {"write": "chmod", "replace": "replace"}[broken], interrupt)
    with pytest.raises(error):
        write_atomically(target, b"after")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert target.read_bytes() == b"before"


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_mode_of_a_file_respects_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "file", b"")
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == mode


def test_another_kind_and_a_newer_version_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "file", version=3)
    with pytest.raises(FormatError, match="holds a 'thing', not a 'relevance'"):
        read_archive(tmp_path / "file", kind="relevance", version=3)
    with pytest.raises(FormatError, match=r"schema version 3 is newer .* reads \(2\)"):
        read_archive(tmp_path / "file", kind="thing", version=2)
    assert read_archive(tmp_path / "file", kind="thing", version=4)[0]["version"] == 3


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, 0.999])
def test_a_truncated_file_is_refused(tmp_path: Path, share: float) -> None:
    save(tmp_path / "file")
    content = (tmp_path / "file").read_bytes()
    (tmp_path / "file").write_bytes(content[: int(share * len(content))])
    with pytest.raises(FormatError, match="cannot be read as a saved thing"):
        read_archive(tmp_path / "file", kind="thing", version=1)


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    save(tmp_path / "file")
    content = bytearray((tmp_path / "file").read_bytes())
    place = bytes(content).index(np.arange(500, 520).tobytes())
    content[place] ^= 1
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(FormatError, match="CRC"):
        read_archive(tmp_path / "file", kind="thing", version=1)


def test_object_arrays_are_neither_saved_nor_read(tmp_path: Path) -> None:
    objects = np.array([{}, 1], dtype=object)
    with pytest.raises(FormatError, match="'o' of a thing holds Python objects"):
        write_archive(tmp_path / "file", kind="thing", version=1, arrays={"o": objects})
    assert not list(tmp_path.iterdir())
    header = np.array('{"kind":"thing","version":1}')
    with (tmp_path / "file").open("wb") as stream:
        np.savez(stream, header=header, o=objects)
    with pytest.raises(FormatError, match="allow_pickle"):
        read_archive(tmp_path / "file", kind="thing", version=1)


@pytest.mark.parametrize(
    "header", ["[]", "{", '{"kind":"thing"}', '{"version":1}', '{"kind":"thing","version":"x"}']
)
def test_a_header_that_says_nothing_is_refused(tmp_path: Path, header: str) -> None:
    np.savez(tmp_path / "file.npz", header=np.array(header))
    with pytest.raises(FormatError, match="cannot be read as a saved thing"):
        read_archive(tmp_path / "file.npz", kind="thing", version=1)


def test_other_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "plain.npy", np.zeros(3))
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    (tmp_path / "text").write_text("a,b\n1,2\n")
    for name in ("plain.npy", "other.npz", "text"):
        with pytest.raises(FormatError, match=f"{name}: cannot be read as a saved thing"):
            read_archive(tmp_path / name, kind="thing", version=1)
    with pytest.raises(InputNotFoundError, match=r"absent: no such file \(expected a saved thing"):
        read_archive(tmp_path / "absent", kind="thing", version=1)


def test_canonical_json_is_one_text() -> None:
    assert canonical_json({"b": "é", "a": {"d": 1, "c": 2.5}}) == '{"a":{"c":2.5,"d":1},"b":"é"}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"a": float("nan")})
