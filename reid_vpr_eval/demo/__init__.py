"""A small rendered world with known ground truth, to try everything on."""

from __future__ import annotations

from reid_vpr_eval.demo.showcase import Showcase, show
from reid_vpr_eval.demo.world import World, render_world

__all__ = ["Showcase", "World", "render_world", "show"]
