"""How files are read: a registry of readers, one function a format, and the few writers."""

from __future__ import annotations

from reid_vpr_eval.formats.arrays import write_features
from reid_vpr_eval.formats.features import read_features, read_matrix
from reid_vpr_eval.formats.images import IMAGE_SUFFIXES, image_bytes, open_image
from reid_vpr_eval.formats.names import GRAMMARS, Grammar, parse_name, parse_names
from reid_vpr_eval.formats.registry import FORMATS, Content, Reader, SideName, reader
from reid_vpr_eval.formats.sides import Side, read_side, read_sides
from reid_vpr_eval.formats.spec import SideSpec, apply_spec
from reid_vpr_eval.formats.trec import Qrels, Run, read_qrels, read_run

__all__ = [
    "FORMATS",
    "GRAMMARS",
    "IMAGE_SUFFIXES",
    "Content",
    "Grammar",
    "Qrels",
    "Reader",
    "Run",
    "Side",
    "SideName",
    "SideSpec",
    "apply_spec",
    "image_bytes",
    "open_image",
    "parse_name",
    "parse_names",
    "read_features",
    "read_matrix",
    "read_qrels",
    "read_run",
    "read_side",
    "read_sides",
    "reader",
    "write_features",
]
