"""A figure inside a page: no outside name, no clash of ids, colours of the page's theme."""

from __future__ import annotations

import re

from reid_vpr_eval.report.figures.style import GRID, INK, MUTED, SERIES

__all__ = ["inline_svg"]

_THEME = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--line)",
    **{colour: f"var(--series-{i})" for i, colour in enumerate(SERIES, 1)},
}
#: White paper; white letters and marks stay white.
_BACKGROUND = re.compile(r'(<path d="[^"]*" style=")fill: #ffffff')
_UNWANTED = (
    re.compile(r"<\?xml.*?\?>", re.DOTALL),
    re.compile(r"<!DOCTYPE.*?>", re.DOTALL),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"<metadata>.*?</metadata>", re.DOTALL),
    re.compile(r'\s+xmlns(?::\w+)?="[^"]*"'),
)


def inline_svg(svg: bytes, name: str, label: str) -> str:
    """Return an SVG file as an element of a page.

    Parameters
    ----------
    svg : bytes
        The file.
    name : str
        Stands before every id, so that several figures share a page.
    label : str
        What it shows, for those who do not see it; escaped here.
    """
    text = svg.decode()
    for pattern in _UNWANTED:
        text = pattern.sub("", text)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#{name}-", text)
    text = _BACKGROUND.sub(r"\1fill: none", text)
    for colour, variable in _THEME.items():
        text = text.replace(colour, variable)
    head = re.search(r"<svg\b[^>]*>", text)
    box = re.search(r'viewBox="[^"]*"', head.group() if head else "")
    opening = f'<svg {box.group() if box else ""} role="img" aria-label="{_quoted(label)}">'
    return re.sub(r"<svg\b[^>]*>", lambda _: opening, text, count=1).strip()


def _quoted(text: str) -> str:
    marks = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
    return "".join(marks.get(letter, letter) for letter in text)
