"""Writing plain tables as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from reid_vpr_eval.errors import FormatError

__all__ = ["to_toml"]


def to_toml(content: Mapping[str, Any]) -> str:
    """Write plain tables as TOML: one level of headings, anything deeper inline."""
    lines = [
        f"{key} = {_value(value)}"
        for key, value in content.items()
        if value is not None and not isinstance(value, dict)
    ]
    for key, value in content.items():
        if isinstance(value, dict):
            lines += ["", f"[{key}]"]
            lines += [f"{k} = {_value(v)}" for k, v in value.items() if v is not None]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        inside = ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    raise FormatError(f"{type(value).__name__} cannot be written as TOML")


def _key(key: str) -> str:
    plain = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if plain else json.dumps(key, ensure_ascii=False)
