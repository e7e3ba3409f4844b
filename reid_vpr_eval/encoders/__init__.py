"""Images to feature vectors: a baseline without any model, and a door for models of one's own."""

from __future__ import annotations

from reid_vpr_eval.encoders.baseline import colour_texture, thumbnail
from reid_vpr_eval.encoders.encoding import encode
from reid_vpr_eval.encoders.images import read_image
from reid_vpr_eval.encoders.registry import ENCODERS, Encoder, encoder, load_encoder

__all__ = [
    "ENCODERS",
    "Encoder",
    "colour_texture",
    "encode",
    "encoder",
    "load_encoder",
    "read_image",
    "thumbnail",
]
