"""Encoders: invariants over the registry, images of every kind, the cache, errors."""

from __future__ import annotations

import io
import logging
import os
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from reid_vpr_eval.encoders import ENCODERS, encode, encoder, load_encoder, read_image
from reid_vpr_eval.errors import AlignmentError, FormatError, ScoreError

SHARED = Path(os.environ.get("RVE_SHARED", Path(__file__).parents[2] / "shared")) / "data"


def stored(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


def pictures(n: int, seed: int = 0) -> list[bytes]:
    rng = np.random.default_rng(seed)
    made = []
    for k in range(n):
        small = rng.integers(0, 256, (5, 4, 3)).astype(np.uint8)
        made.append(stored(Image.fromarray(small).resize((30 + k, 50), Image.Resampling.BILINEAR)))
    return made


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module of one's own in the current directory."""
    name = f"own_encoders_{abs(hash(tmp_path)) % 10**9}"
    (tmp_path / f"{name}.py").write_text(
        "import numpy as np\n"
        "CALLS = []\n"
        "NUMBER = 3\n"
        "def sizes(images):\n"
        "    CALLS.append(len(images))\n"
        "    return [[float(v) for v in image.size] for image in images]\n"
        "def bare(images): return [1.0 for _ in images]\n"
        "def fewer(images): return np.ones((len(images) - 1, 4))\n"
        "def words(images): return [['a'] for _ in images]\n"
        "def ragged(images): return [[0.0] * (1 + k) for k, _ in enumerate(images)]\n"
        "def growing(images):\n"
        "    CALLS.append(1)\n"
        "    return np.ones((len(images), len(CALLS)))\n"
        "def missing(images):\n"
        "    return [[np.nan if image.size[0] == 32 else 1.0] for image in images]\n"
        "def huge(images): return np.full((len(images), 2), 1e300)\n"
        "def broken(images): raise RuntimeError('no memory')\n"
        "class Model:\n"
        "    @staticmethod\n"
        "    def run(images): return np.ones((len(images), 2), np.int8)\n"
    )
    monkeypatch.chdir(tmp_path)
    return name


@pytest.mark.parametrize("name", sorted(ENCODERS))
def test_invariants_of_every_encoder(name: str) -> None:
    files = pictures(9)
    files.append(files[2])
    vectors = encode(files.__getitem__, len(files), name)
    assert vectors.dtype == np.float32
    assert vectors.ndim == 2
    assert np.isfinite(vectors).all()
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert np.array_equal(vectors[2], vectors[9])
    assert len(np.unique(vectors, axis=0)) == 9
    for batch in (1, 4, 100):
        assert np.array_equal(encode(files.__getitem__, len(files), name, batch=batch), vectors)
    turned = encode(files[::-1].__getitem__, len(files), name)
    assert np.array_equal(turned[::-1], vectors)


@pytest.mark.parametrize("name", sorted(ENCODERS))
@pytest.mark.parametrize("colour", ["black", "white", "gray", "red"])
@pytest.mark.parametrize("size", [(1, 1), (1, 90), (300, 2)])
def test_plain_images_have_a_direction(name: str, colour: str, size: tuple[int, int]) -> None:
    vector = encode(lambda _: stored(Image.new("RGB", size, colour)), 1, name)[0]
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-4)


def test_more_alike_images_are_nearer() -> None:
    files = pictures(6)
    noisy = []
    for content in files:
        pixels = np.asarray(read_image(content, "x")).astype(int)
        grain = np.random.default_rng(1).integers(-12, 13, pixels.shape)
        noisy.append(
            stored(Image.fromarray(np.clip(pixels * 0.9 + grain, 0, 255).astype(np.uint8)))
        )
    for name in ENCODERS:
        clean = encode(files.__getitem__, 6, name)
        other = encode(noisy.__getitem__, 6, name)
        assert np.argmax(other @ clean.T, axis=1).tolist() == list(range(6))


def test_images_of_every_kind() -> None:
    def pixel(image: Image.Image, kind: str = "PNG", **options: Any) -> Any:
        return read_image(stored(image, kind, **options), "x").getpixel((0, 0))

    assert pixel(Image.new("RGBA", (2, 2), (255, 0, 0, 0))) == (255, 255, 255)
    assert pixel(Image.new("RGBA", (2, 2), (255, 0, 0, 255))) == (255, 0, 0)
    assert pixel(Image.new("LA", (2, 2), (0, 0))) == (255, 255, 255)
    assert pixel(Image.new("1", (2, 2), 1)) == (255, 255, 255)
    assert pixel(Image.new("L", (2, 2), 7)) == (7, 7, 7)
    palette = Image.new("RGB", (2, 2), (0, 0, 255)).convert("P", palette=Image.Palette.ADAPTIVE)
    assert pixel(palette) == (0, 0, 255)
    assert pixel(palette, transparency=0) == (255, 255, 255)
    deep = Image.fromarray(np.full((2, 2), 257 * 100, np.uint16))
    assert pixel(deep) == (100, 100, 100)
    assert pixel(deep, "TIFF") == (100, 100, 100)
    assert pixel(Image.new("CMYK", (2, 2), (0, 0, 0, 255)), "TIFF") == (0, 0, 0)
    with pytest.raises(FormatError, match="x: holds fractions"):
        pixel(Image.new("F", (2, 2)), "TIFF")


def test_exif_orientation_is_applied() -> None:
    image = Image.new("RGB", (40, 20), "red")
    image.paste((0, 0, 255), (0, 0, 20, 20))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: the left edge is the top
    turned = read_image(stored(image, "PNG", exif=exif), "x")
    assert turned.size == (20, 40)
    assert turned.getpixel((10, 2)) == (0, 0, 255)


def test_bytes_that_are_no_image_are_named() -> None:
    whole = pictures(1)[0]
    noise = np.random.default_rng(0).integers(0, 256, (60, 60, 3)).astype(np.uint8)
    jpeg = stored(Image.fromarray(noise), "JPEG")
    for content in (b"", b"hello", whole[: len(whole) // 2], whole[:20], jpeg[: len(jpeg) // 2]):
        files = [whole, content]
        with pytest.raises(FormatError, match=r"b\.png: .*(leave it out|convert it)"):
            encode(files.__getitem__, 2, names=["a.png", "b.png"])


def test_damaged_images_never_fail_in_another_way() -> None:
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (12, 12, 3)).astype(np.uint8))
    for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"):
        content = np.frombuffer(stored(noise, kind), np.uint8)
        for _ in range(60):
            damaged = content[: int(rng.integers(1, len(content) + 1))].copy()
            damaged[rng.integers(0, len(damaged), 4)] = rng.integers(0, 256, 4)
            try:
                read_image(damaged.tobytes(), "x")
            except (FormatError, Warning):  # warnings of Pillow are errors in the tests
                continue


def test_a_decompression_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(FormatError, match=r"big\.png: .*MAX_IMAGE_PIXELS"):
        read_image(stored(Image.new("RGB", (40, 40))), "big.png")


def test_registering() -> None:
    with pytest.raises(ScoreError, match="there is an encoder 'thumbnail' already"):
        encoder("thumbnail")(lambda images: [[0.0] for _ in images])
    with pytest.raises(ScoreError, match="has no colon"):
        encoder("a:b")(lambda images: [[0.0] for _ in images])
    assert load_encoder("thumbnail") is ENCODERS["thumbnail"]
    assert {"colour-texture", "thumbnail"} <= set(ENCODERS)


def test_an_encoder_of_ones_own(module: str) -> None:
    files = pictures(5)
    vectors = encode(files.__getitem__, 5, f"{module}:sizes", batch=2)
    assert vectors.tolist() == [[30.0 + k, 50.0] for k in range(5)]
    assert sys.modules[module].CALLS == [2, 2, 1]
    assert encode(files.__getitem__, 5, f"{module}:Model.run").shape == (5, 2)
    assert os.getcwd() not in sys.path


def test_encoders_that_are_not_there(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}_needy.py").write_text("import a_package_that_is_not_installed\n")
    (tmp_path / f"{module}_bad.py").write_text("1 / 0\n")
    cases = {
        "colour": r"unknown encoder 'colour'; known: colour-texture, .*module:function",
        "nowhere_at_all:f": r"no module 'nowhere_at_all'.*PYTHONPATH",
        "nowhere.at.all:f": r"no module 'nowhere'",
        ":f": "not of the form",
        f"{module}:": "not of the form",
        f"{module}:absent": r"has no 'absent'; its names: .*sizes",
        f"{module}:NUMBER": "is a int, not a function",
        f"{module}_needy:f": "needs the package 'a_package_that_is_not_installed'",
        f"{module}_bad:f": "fails when it is imported .ZeroDivisionError",
    }
    for name, message in cases.items():
        with pytest.raises(ScoreError, match=message):
            load_encoder(name)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("bare", r"the shape \(3,\) for 3 images \(images p0 to p2\)"),
        ("fewer", r"the shape \(2, 4\) for 3 images"),
        ("words", "real numbers are needed"),
        ("ragged", "does not become an array"),
        ("growing", r"2 dimensions for the image p3, but 1 for the image p0"),
        ("missing", r"NaN or infinite values for 1 of 3 images, the first is p2"),
        ("huge", r"NaN or infinite values for 3 of 3 images, the first is p0"),
    ],
)
def test_unusable_vectors(module: str, function: str, message: str) -> None:
    files, names = pictures(5), [f"p{k}" for k in range(5)]
    with pytest.raises(ScoreError, match=message) as caught:
        encode(files.__getitem__, 5, f"{module}:{function}", batch=3, names=names)
    assert f"{module}:{function}" in str(caught.value)


def test_an_encoder_that_fails_says_for_which_images(module: str) -> None:
    with pytest.raises(RuntimeError, match="no memory") as caught:
        encode(pictures(2).__getitem__, 2, f"{module}:broken")
    assert "images image 0 to image 1" in caught.value.__notes__[0]


def test_wrong_calls() -> None:
    files = pictures(2)
    with pytest.raises(ScoreError, match="no images"):
        encode(files.__getitem__, 0)
    with pytest.raises(ScoreError, match="batch of 0"):
        encode(files.__getitem__, 2, batch=0)
    with pytest.raises(AlignmentError, match="1 name for 2 images"):
        encode(files.__getitem__, 2, names=["a"])


def test_progress_ends_at_the_end() -> None:
    calls: list[tuple[int, int]] = []
    encode(pictures(5).__getitem__, 5, batch=2, progress=lambda done, n: calls.append((done, n)))
    assert calls == [(2, 5), (4, 5), (5, 5)]


def no_decoding(content: bytes, name: str) -> Image.Image:
    raise AssertionError(f"{name} was decoded")


def test_the_cache_saves_all_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files, cache = pictures(7), tmp_path / "cache"
    vectors = encode(files.__getitem__, 7, cache=cache)
    assert np.array_equal(vectors, encode(files.__getitem__, 7))
    assert not np.array_equal(
        vectors[:, :5], encode(files.__getitem__, 7, "thumbnail", cache=cache)[:, :5]
    )
    monkeypatch.setattr("reid_vpr_eval.encoders.encoding.read_image", no_decoding)
    with caplog.at_level(logging.INFO, "reid_vpr_eval"):
        again = encode(files[::-1].__getitem__, 7, cache=cache)
    assert np.array_equal(again[::-1], vectors)
    assert "7 of 7 images found in the cache" in caplog.text
    with pytest.raises(AssertionError, match="image 1 was decoded"):
        encode([files[0], pictures(1, seed=5)[0]].__getitem__, 2, cache=cache)


def test_the_cache_knows_another_version_of_the_module(module: str, tmp_path: Path) -> None:
    files, cache, name = pictures(3), tmp_path / "cache", f"{module}:sizes"
    encode(files.__getitem__, 3, name, cache=cache)
    encode(files.__getitem__, 3, name, cache=cache)
    assert sys.modules[module].CALLS == [3]
    with (tmp_path / f"{module}.py").open("a") as source:
        source.write("# changed\n")
    encode(files.__getitem__, 3, name, cache=cache)
    assert sys.modules[module].CALLS == [3, 3]


def test_an_interrupted_run_keeps_what_it_had(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, cache = pictures(6), tmp_path / "cache"

    def load(i: int) -> bytes:
        if i == 5:
            raise KeyboardInterrupt
        return files[i]

    with pytest.raises(KeyboardInterrupt):
        encode(load, 6, f"{module}:sizes", cache=cache, batch=2)
    encode(files.__getitem__, 6, f"{module}:sizes", cache=cache)
    assert sys.modules[module].CALLS == [2, 2, 2]
    monkeypatch.setattr("reid_vpr_eval.encoders.encoding.read_image", no_decoding)
    assert encode(files.__getitem__, 6, f"{module}:sizes", cache=cache).shape == (6, 2)


@pytest.mark.parametrize("damage", ["cut", "flip", "text", "empty"])
def test_a_damaged_cache_is_computed_again(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    files, cache = pictures(4), tmp_path / "cache"
    vectors = encode(files.__getitem__, 4, cache=cache)
    (shard,) = cache.rglob("*.npz")
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 255
    damaged: dict[str, bytes] = {
        "cut": bytes(content[: len(content) // 2]),
        "flip": bytes(content),
        "text": b"hello",
        "empty": b"",
    }
    shard.write_bytes(damaged[damage])
    assert np.array_equal(encode(files.__getitem__, 4, cache=cache), vectors)
    assert "computed again" in caplog.text
    caplog.clear()
    encode(files.__getitem__, 4, cache=cache)
    assert "computed again" not in caplog.text


def test_an_encoder_without_a_file_is_not_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import types

    made = types.ModuleType("made_in_memory")

    def ones(images: Sequence[Image.Image]) -> Any:
        return np.ones((len(images), 2))

    made.__dict__["ones"] = ones
    monkeypatch.setitem(sys.modules, "made_in_memory", made)
    encode(pictures(2).__getitem__, 2, "made_in_memory:ones", cache=tmp_path / "cache")
    assert "not cached" in caplog.text
    assert not (tmp_path / "cache").exists()


def test_real_images() -> None:
    archives = sorted((SHARED / "identity" / "omniglot_small1").rglob("*.zip"))
    if not archives:
        pytest.skip("the real inputs are not here")
    with zipfile.ZipFile(archives[0]) as archive:
        names = [
            name
            for name in archive.namelist()
            if name.endswith(".png") and not name.startswith("__MACOSX")
        ][:40]
        vectors = encode(lambda i: archive.read(names[i]), len(names), names=names)
    assert vectors.shape[0] == len(names)
    assert np.isfinite(vectors).all()
