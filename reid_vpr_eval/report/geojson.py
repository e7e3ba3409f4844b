"""The map of failures for other programs: GeoJSON by RFC 7946."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.report.figures.failures import positions_of
from reid_vpr_eval.result import Result

__all__ = ["geojson_bytes"]

#: Decimals of a degree: a centimetre.
_DECIMALS = 7
_COLUMNS = ("n_positive", "first_rank", "top1_id", "top1_score")


def geojson_bytes(result: Result) -> bytes:
    """Return the queries as points and the way to each first answer as a line.

    Longitude and latitude on WGS 84, a feature a line of the file. Points carry query_id,
    outcome, n_positive, first_rank, top1_id, top1_score, top1_error_m and
    nearest_positive_m; lines carry query_id, top1_id, outcome and top1_error_m. Numbers that
    are not known are null. A line over the 180th meridian is cut there.

    Raises
    ------
    NotCountedError
        If the result holds no positions, or only metres of an unknown UTM zone.
    """
    places, _ = positions_of(result)
    if "lat" not in places:
        raise NotCountedError(
            "positions are metres without a zone, so their latitude and longitude are not known: "
            "give a column zone, or lat and lon"
        )
    features = ",\n".join(
        json.dumps(feature, ensure_ascii=False, allow_nan=False) for feature in _features(result)
    )
    return f'{{"type": "FeatureCollection", "features": [\n{features}\n]}}\n'.encode()


def _features(result: Result) -> Iterator[dict[str, Any]]:
    places, _ = positions_of(result)
    table = result.per_query
    columns = {name: table[name].tolist() for name in _COLUMNS if name in table}
    columns |= {name: places[name].tolist() for name in places.columns}
    of_query = ("query_id", "outcome", *_COLUMNS, "top1_error_m", "nearest_positive_m")
    of_answer = ("query_id", "top1_id", "outcome", "top1_error_m")
    for row in range(len(places)):
        known = {name: _plain(values[row]) for name, values in columns.items()}
        if known["lat"] is None:
            continue
        here = _position(known["lat"], known["lon"])
        yield _feature(
            {"type": "Point", "coordinates": here}, {name: known.get(name) for name in of_query}
        )
        if known.get("top1_lat") is not None:
            there = _position(known["top1_lat"], known["top1_lon"])
            yield _feature(_line(here, there), {name: known.get(name) for name in of_answer})


def _feature(geometry: dict[str, Any], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def _position(lat: float, lon: float) -> list[float]:
    return [round((lon + 180) % 360 - 180, _DECIMALS), round(lat, _DECIMALS)]


def _line(here: list[float], there: list[float]) -> dict[str, Any]:
    """Return a line; one that crosses the 180th meridian in two parts."""
    if abs(here[0] - there[0]) <= 180:
        return {"type": "LineString", "coordinates": [here, there]}
    edge = math.copysign(180.0, here[0])
    across = 360 - abs(here[0] - there[0])
    share = (180 - abs(here[0])) / across if across else 0.0
    lat = round(here[1] + share * (there[1] - here[1]), _DECIMALS)
    return {
        "type": "MultiLineString",
        "coordinates": [[here, [edge, lat]], [[-edge, lat], there]],
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: null for what is no number."""
    if value is None or value != value or value in (math.inf, -math.inf):
        return None
    return value.item() if hasattr(value, "item") else value
