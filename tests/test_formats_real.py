"""Real inputs, where they are there: counts that are known from elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reid_vpr_eval.errors import FormatError
from reid_vpr_eval.formats import SideSpec, open_image, read_features, read_side, read_sides

DATA = (
    Path(os.environ.get("RVE_SHARED", Path(__file__).resolve().parents[1].parent / "shared"))
    / "data"
)
NO = SideSpec()


def real(name: str) -> Path:
    if not (DATA / name).exists():
        pytest.skip(f"the real input {name} is not here")
    return DATA / name


@pytest.mark.parametrize("name", ["index.csv", "mobilenetv2_6floors.npz"])
def test_one_table_of_frames_for_both_sides(name: str) -> None:
    source = real(f"places/ietower/{name}")
    shared: dict[str, Any] = {"columns": {"label": "floor", "camera": "clip"}}
    query, gallery = read_sides(
        source,
        source,
        query_spec=SideSpec(**shared, where={"split": "query"}),
        gallery_spec=SideSpec(**shared, where={"split": "gallery"}),
        query_features=real("places/ietower/mobilenetv2_6floors.npz"),
    )
    assert (len(query.samples), len(gallery.samples)) == (88, 418)
    assert query.features is not None
    assert query.features.shape == (88, 1280)
    assert query.features.dtype == np.float16
    assert query.row_ids
    assert query.root is not None
    both = [set(np.asarray(side.samples.ids).tolist()) for side in (query, gallery)]
    assert both[0] | both[1] == set(range(506))
    assert (
        len(open_image(query, 0)) == (query.root / query.samples.values("path")[0]).stat().st_size
    )


@pytest.mark.parametrize(
    ("name", "sizes"), [("pitts30k_test", (6816, 10000)), ("tokyo247", (315, 75984))]
)
def test_positions_of_places(name: str, sizes: tuple[int, int]) -> None:
    source = real(f"places/patch_netvlad/{name}.npz")
    query, gallery = read_sides(source, source, query_spec=NO, gallery_spec=NO)
    assert (len(query.samples), len(gallery.samples)) == sizes
    assert query.samples.values("north").min() > query.samples.values("east").max()
    assert query.samples.ids is None


def test_lists_of_places_share_no_id_though_they_share_bare_names() -> None:
    query, gallery = read_sides(
        real("places/patch_netvlad/pitts30k_imageNames_query.txt"),
        real("places/patch_netvlad/pitts30k_imageNames_index.txt"),
        query_spec=NO,
        gallery_spec=NO,
    )
    paths = [side.samples.values("path").tolist() for side in (query, gallery)]
    bare = [{path.rsplit("/", 1)[-1] for path in side} for side in paths]
    assert (len(paths[0]), len(paths[1]), len(bare[0] & bare[1])) == (6816, 10000, 288)
    assert query.samples.ids is not None
    assert not set(query.samples.ids.tolist()) & set(np.asarray(gallery.samples.ids).tolist())


def test_vehicles_listed_by_name() -> None:
    spec = SideSpec(names="veri")
    samples = read_side(real("labels/veri776/ex.txt"), spec, "query").samples
    queries = np.char.startswith(samples.values("path"), "query")
    assert (int(queries.sum()), int((~queries).sum())) == (1678, 11579)
    assert len(np.unique(samples.values("label"))) == 200
    assert len(np.unique(samples.values("camera"))) == 19
    with pytest.raises(FormatError, match="line 1 has 42 columns"):
        read_side(real("labels/veri776/keypoint_test.txt"), NO, "query")
    with pytest.raises(FormatError, match="line 1 has"):
        read_side(real("labels/veri776/gt_index.txt"), NO, "query")


def test_characters_in_a_zip() -> None:
    source = real("identity/omniglot_small1/images_background_small1.zip")
    spec = SideSpec(names=r"(?P<label>\w+/character\d+)/\d+_(?P<camera>\d+)\.png$")
    side = read_side(source, spec, "query")
    assert len(side.samples) == 2720
    assert len(np.unique(side.samples.values("label"))) == 136
    assert np.unique(side.samples.values("camera")).tolist() == list(range(1, 21))
    assert all(open_image(side, row).startswith(b"\x89PNG") for row in (0, 1000, 2719))


def test_photos_in_a_folder() -> None:
    side = read_side(real("places/opensfm_lund"), SideSpec(folder="images"), "query")
    assert side.samples.values("path").tolist()[:2] == ["01.jpg", "02.jpg"]
    assert len(side.samples) == 29
    assert open_image(side, 28).startswith(b"\xff\xd8")


def test_what_is_no_side_is_refused() -> None:
    with pytest.raises(FormatError, match="no pickle is loaded"):
        read_features(real("formats/vprbench_object_array.npy"))
    with pytest.raises(FormatError, match="several matrices"):
        read_features(real("places/vprbench_corridor_scores/corridor_scores.npz"))
    with pytest.raises(FormatError, match="its fields are queryID"):
        read_side(real("labels/market1501/queryID.mat"), NO, "query")
    with pytest.raises(FormatError, match="names two images"):
        read_side(real("formats/hloc/pairs/inloc/pairs-query-netvlad20.txt"), NO, "query")
