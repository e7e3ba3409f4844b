"""Vector files: every header is checked, sizes must fit, nothing is guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import reid_vpr_eval as rve
from reid_vpr_eval.errors import FormatError, InputNotFoundError, ScoreError
from reid_vpr_eval.formats import SideSpec, read_sides
from reid_vpr_eval.formats.vectors import read_neighbours, read_vectors

KINDS = {".fvecs": "<f4", ".ivecs": "<i4", ".bvecs": "u1"}
ONE_HEADER = {".fbin": "<f4", ".ibin": "<i4", ".u8bin": "u1", ".i8bin": "i1"}


def vectors(kind: str, shape: tuple[int, int] = (7, 5)) -> npt.NDArray[Any]:
    return (np.random.default_rng(0).integers(-99, 99, shape)).astype(kind)


def write_vecs(path: Path, rows: Any, kind: str) -> Path:
    with path.open("wb") as stream:
        for row in rows:
            stream.write(np.int32(len(row)).astype("<i4").tobytes())
            stream.write(np.asarray(row, kind).tobytes())
    return path


def write_bin(path: Path, *arrays: npt.NDArray[Any]) -> Path:
    head = np.array(arrays[0].shape, "<u4").tobytes()
    path.write_bytes(head + b"".join(array.tobytes() for array in arrays))
    return path


@pytest.mark.parametrize(("suffix", "kind"), KINDS.items())
def test_vectors_with_a_header_each(tmp_path: Path, suffix: str, kind: str) -> None:
    rows = vectors(kind)
    path = write_vecs(tmp_path / f"base{suffix}", rows, kind)
    found = read_vectors(path)
    assert np.array_equal(found, rows)
    assert found.dtype == kind


@pytest.mark.parametrize(("suffix", "kind"), ONE_HEADER.items())
def test_vectors_with_one_header(tmp_path: Path, suffix: str, kind: str) -> None:
    rows = vectors(kind)
    path = write_bin(tmp_path / f"base{suffix}", rows)
    assert np.array_equal(read_vectors(path), rows)
    assert read_vectors(path).dtype == kind


def test_a_vector_of_another_dimension_is_named(tmp_path: Path) -> None:
    rows = [[1, 2, 3]] * 9 + [[1, 2], [4, 5, 6, 7]] + [[1, 2, 3]]
    path = write_vecs(tmp_path / "a.ivecs", rows, "<i4")
    assert path.stat().st_size % 16 == 0
    with pytest.raises(FormatError, match=r"a\.ivecs: row 9 begins with the dimension 2"):
        read_vectors(path)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.fvecs", b"", "has 0 bytes and so no header"),
        ("a.fvecs", b"\1\0", "has 2 bytes and so no header"),
        ("a.fvecs", b"\0\0\0\0", "begins with the dimension 0"),
        ("a.fvecs", b"\xff\xff\xff\xff", "begins with the dimension -1"),
        ("a.fvecs", b"\2\0\0\0" + b"1234" * 2 + b"\2\0\0\0", "1 row and 4 bytes more"),
        ("a.fvecs", b"plain words, 1", "a row has .* are 0 rows and"),
        ("a.bvecs", b"\2\0\0\0" + b"12", None),
        ("a.bvecs", b"\xff\xff\xff\x7f" + b"12", "a row has 2,147,483,651 bytes, but the 6"),
        ("a.fbin", b"\1\0\0\0\2\0\0\0" + b"1234" * 2, None),
        ("a.fbin", b"\1\0\0\0\2\0\0\0" + b"1234", "the file has 0 .12 bytes, not 16"),
        ("a.fbin", b"\0\0\0\0\2\0\0\0", "is empty, of the shape .0, 2"),
        ("a.ibin", b"\1\0\0\0", "no header"),
        ("a.u8bin", b"\2\0\0\0\2\0\0\0" + b"123456", "has 3 .14 bytes, not 12.: there is more"),
        ("a.xvecs", b"1234", "not from .xvecs"),
    ],
)
def test_damaged_vectors(tmp_path: Path, name: str, content: bytes, says: str | None) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    if says is None:
        assert len(read_vectors(path)) == 1
        return
    with pytest.raises((FormatError, ScoreError), match=f"{name}: .*{says}"):
        read_vectors(path)


def test_neighbours_of_every_kind(tmp_path: Path) -> None:
    ids = vectors("<i4", (4, 3))
    distances = vectors("<f4", (4, 3))
    np.save(tmp_path / "a.npy", ids)
    np.savez(tmp_path / "a.npz", neighbors=ids, distances=distances)
    np.savez(tmp_path / "b.npz", ids=ids)
    write_vecs(tmp_path / "a.ivecs", ids, "<i4")
    write_bin(tmp_path / "a.ibin", ids)
    write_bin(tmp_path / "b.ibin", ids, distances)
    for name in ("a.npy", "a.npz", "b.npz", "a.ivecs", "a.ibin", "b.ibin"):
        found = read_neighbours(tmp_path / name)
        assert np.array_equal(found.ids, ids)
        if name in ("a.npz", "b.ibin"):
            assert found.distances is not None
            assert np.array_equal(found.distances, distances)
        else:
            assert found.distances is None


def test_neighbours_that_are_none(tmp_path: Path) -> None:
    np.save(tmp_path / "float.npy", np.ones((2, 2)))
    np.save(tmp_path / "flat.npy", np.ones(2, int))
    np.savez(tmp_path / "two.npz", ids=np.ones((1, 1), int), neighbors=np.ones((1, 1), int))
    np.savez(tmp_path / "other.npz", distances=np.ones((1, 1)))
    write_vecs(tmp_path / "a.fvecs", [[1.0]], "<f4")
    for name, says in [
        ("float.npy", "float64 of the shape"),
        ("flat.npy", r"of the shape \(2,\)"),
        ("two.npz", "one array called neighbors or neighbours"),
        ("other.npz", "it has distances"),
        ("a.fvecs", r"read from \.ivecs, \.ibin"),
    ]:
        with pytest.raises(FormatError, match=says):
            read_neighbours(tmp_path / name)
    with pytest.raises(InputNotFoundError, match="no such file"):
        read_neighbours(tmp_path / "none.ivecs")
    with pytest.raises(InputNotFoundError, match="no such file"):
        read_vectors(tmp_path / "none.fvecs")


def test_hdf5_of_ann_benchmarks(tmp_path: Path) -> None:
    """Vectors of both sides, neighbours and distances from one file; through a protocol too."""
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(30, 4)), rng.normal(size=(5, 4))
    far = np.linalg.norm(test[:, None] - train[None], axis=2)
    nearest = np.argsort(far, axis=1)[:, :6]
    path = tmp_path / "glove.hdf5"
    with h5py.File(path, "w") as file:
        file["train"], file["test"] = train, test
        file["neighbors"], file["distances"] = nearest, np.take_along_axis(far, nearest, 1)
    ids, distances = read_neighbours(path)
    assert np.array_equal(ids, nearest)
    assert distances is not None
    spec = rve.Protocol.from_dict(
        {"name": "ann", "relevance": {"kind": "nearest", "k": 3},
         "report": {"metric": "euclidean", "metrics": ["P@3"]}}
    )  # fmt: skip
    sides = read_sides(path, path, query_spec=SideSpec(), gallery_spec=SideSpec())
    scores = rve.Embeddings(sides[0].features, sides[1].features, metric="euclidean")
    result = rve.evaluate(spec, sides[0].samples, sides[1].samples, scores, truth=path)
    assert result.metrics["P@3"] == 1.0
    with h5py.File(tmp_path / "bare.h5", "w") as file:
        file["train"] = train
    with pytest.raises(rve.FormatError, match=r"no dataset 'neighbors'; it has train"):
        read_neighbours(tmp_path / "bare.h5")
