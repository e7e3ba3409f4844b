"""The tables of a protocol file: every key with its default and a line of documentation."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator

from reid_vpr_eval.scores import MetricName

__all__ = [
    "CountTable",
    "DrawTable",
    "EvaluationTable",
    "ExpectedTable",
    "FramesRule",
    "IgnoreEntry",
    "LabelRule",
    "ListedRule",
    "NearestRule",
    "NoPositive",
    "PoseRule",
    "ReportTable",
    "Rule",
    "SideTable",
    "Table",
    "WithinRule",
]

Scalar: TypeAlias = bool | int | str
NoPositive: TypeAlias = Literal["skip", "zero", "one", "error"]
Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count: TypeAlias = Annotated[int, Field(ge=0)]


class Table(BaseModel):
    """A table of a protocol file: unknown keys are errors, values are not converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SideTable(Table):
    """Where one side comes from and how it is read."""

    folder: str | None = Field(None, description="sub-folder of the data set with the images")
    names: str | None = Field(
        None, description="grammar of file names, or a regular expression with named groups"
    )
    columns: dict[str, str] = Field({}, description="columns to rename: meaning = name in the file")
    where: dict[str, Scalar | list[Scalar]] = Field(
        {}, description="rows to keep: column = value, or a list of values"
    )
    aliases: dict[str, dict[str, Scalar]] = Field(
        {}, description="values to replace, by column: old = new"
    )


class IgnoreEntry(Table):
    """Items to ignore; the keys are AND-ed. With `gallery` alone they are ignored by everybody."""

    same: list[str] = Field([], description="columns in which query and item agree")
    different: list[str] = Field([], description="columns in which they differ")
    query: dict[str, list[Scalar]] = Field({}, description="values of the query")
    gallery: dict[str, list[Scalar]] = Field({}, description="values of the gallery item")


SelfRule: TypeAlias = Literal["exclude", "keep"]


class _AnyRule(Table):
    """What every kind of rule takes."""

    ignore: list[IgnoreEntry] = Field([], description="further ignored items; entries are OR-ed")
    wide_ignore: list[IgnoreEntry] = Field(
        [], description="ignored items that are too many to be named one by one; OR-ed"
    )

    @field_validator("radius", "metres", "degrees", "heading", "height", "grade",
                     mode="before", check_fields=False)
    @classmethod
    def _number(cls, value: object) -> object:
        if isinstance(value, list):
            return [cls._number(one) for one in value]
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


class LabelRule(_AnyRule):
    """Right by label."""

    kind: Literal["label"]
    label: str = Field("label", description="the column that identifies")
    different: list[str] = Field([], description="columns in which a positive differs")
    same: list[str] = Field([], description="columns in which a positive agrees")
    failing: Literal["ignore", "negative"] = Field(
        "ignore", description="what an item of the same label is that fails these"
    )
    self: SelfRule = Field(
        "exclude", description="whether the query itself is taken out of its ranking"
    )


class _PlaceRule(_AnyRule):
    """What every rule of places takes."""

    self: SelfRule = Field(
        "keep", description="whether the query itself is taken out of its ranking"
    )
    group_search: str | None = Field(
        None, description="column, such as a city; a query is searched among its own value only"
    )


class WithinRule(_PlaceRule):
    """Right by distance on the ground."""

    kind: Literal["within"]
    radius: Positive | list[Positive] = Field(
        25.0, description="metres; of several the first is the headline"
    )
    coordinates: Literal["utm", "latlon"] | None = Field(
        None, description="columns to use; utm where east and north exist"
    )
    inclusive: bool = Field(True, description="whether exactly the radius is still positive")
    heading: Positive | None = Field(
        None, description="largest difference of heading in degrees, on the circle"
    )
    height: Positive | None = Field(None, description="largest difference of height in metres")


class PoseRule(_PlaceRule):
    """Right by pose: camera centres and rotations."""

    kind: Literal["pose"]
    metres: Positive | list[Positive] = Field(
        0.25, description="largest distance of centres (x, y, z); of several the first is headline"
    )
    degrees: Positive | list[Positive] | None = Field(
        None,
        description="largest rotation between them (qw, qx, qy, qz), one for each of metres; "
        "the position alone if not given",
    )
    strict: bool = Field(False, description="whether exactly the threshold is already wrong")


class FramesRule(_PlaceRule):
    """Right by frame: so many frames before or after."""

    kind: Literal["frames"]
    window: int = Field(1, ge=0, description="largest difference of frames")
    unit: Literal["frame", "index"] = Field(
        "frame", description="the column frame, or the position in the sorted gallery"
    )
    sided: Literal["both", "before", "after"] = Field(
        "both", description="which side of the query counts"
    )
    sequence: str | None = Field(
        None, description="column that must agree; a window never crosses it"
    )


class NearestRule(_AnyRule):
    """Right by distance in another space: the exact nearest neighbours."""

    kind: Literal["nearest"]
    k: int = Field(1, ge=1, description="how many nearest neighbours are positive")
    file: str | None = Field(
        None, description="neighbours computed before (.ivecs, .npy); else from other features"
    )
    metric: MetricName = Field(
        "euclidean", description="distance in the other space"
    )
    ties: Literal["judge", "exclude"] = Field(
        "judge", description="items as near as the k-th: all positive, or strictly nearer ones only"
    )
    self: SelfRule = Field(
        "exclude", description="whether the query itself is taken out of its ranking"
    )


class ListedRule(_AnyRule):
    """Right by a list of pairs."""

    kind: Literal["listed"]
    file: str | None = Field(None, description="the lists; supplied by the user if not given")
    by: Literal["id", "index"] = Field("id", description="how items are named")
    base: Literal[0, 1] = Field(0, description="what positions count from")
    positive: list[str] = Field(["positive"], description="names of lists of positives")
    ignored: list[str] = Field(["ignored"], description="names of lists of ignored items")
    grade: Positive = Field(1.0, description="smallest grade of a positive")
    self: SelfRule = Field(
        "keep", description="whether the query itself is taken out of its ranking"
    )


Rule: TypeAlias = Annotated[
    LabelRule | WithinRule | PoseRule | FramesRule | NearestRule | ListedRule,
    Field(discriminator="kind"),
]


class DrawTable(Table):
    """A gallery that is drawn: some items of each group, several times."""

    labels: int | None = Field(
        None, ge=1, description="how many of the labels that both sides have are drawn first"
    )
    per: list[str] = Field([], description="columns; one draw takes n items of each combination")
    n: int = Field(1, ge=1, description="how many items of each group")
    repeats: int = Field(10, ge=1, description="number of draws that are averaged")
    seed: int = Field(0, ge=0, description="seed of the draws")
    method: Literal["sample", "exact"] = Field(
        "sample", description="exact: the expectation over all draws"
    )
    per_query: bool = Field(False, description="whether every query has a draw of its own")
    rest: bool = Field(
        False, description="whether the items that are not drawn are the queries (one set)"
    )
    file: str | None = Field(None, description="draws given by a file, supplied by the user")


class EvaluationTable(Table):
    """How queries are averaged."""

    no_positive: NoPositive | None = Field(
        None, description="a query without a positive; by kind: label skip, within zero"
    )
    macro: list[str] = Field([], description="query columns to average over before the mean")


class IntervalTable(Table):
    """How uncertainty is estimated."""

    method: Literal["auto", "bca", "korn-graubard", "wilson", "moving-block", "none"] = Field(
        "auto", description="the interval's construction; auto: by the number of units"
    )
    unit: str | None = Field(
        None,
        description="what is resampled together: a query column; position: equal coordinates; "
        "traverse: neighbours along the way; query: each alone; by kind: label label, frames "
        "traverse, places position where any repeats, else sequence",
    )
    level: float = Field(0.95, gt=0, lt=1, description="coverage")
    resamples: int = Field(2000, ge=1, description="number of bootstrap resamples")
    seed: int = Field(0, ge=0, description="seed of the resampling")


class ReportTable(Table):
    """What is printed; changes no number that may be compared."""

    metric: MetricName = Field(
        "cosine", description="distance of features, unless another is given"
    )
    ties: Literal["expected", "optimistic", "pessimistic", "index"] = Field(
        "expected", description="how equal scores are read"
    )
    metrics: list[str] = Field(
        ["mAP", "CMC@1", "CMC@5", "CMC@10"], min_length=1, description="what is reported, in order"
    )
    spelling: str = Field("CMC@{k}", description="how CMC@k is printed, such as Rank-{k} or R@{k}")
    profile: str | None = Field(None, description="tool whose rule is shown beside the headline")
    interval: IntervalTable = Field(IntervalTable(), description="how uncertainty is estimated")

    @field_validator("spelling")
    @classmethod
    def _has_k(cls, value: str) -> str:
        if value.count("{k}") != 1 or set("{}") & set(value.replace("{k}", "")):
            raise ValueError("must hold {k} once and no other braces")
        return value


class CountTable(Table):
    """What is counted beyond the need of the metrics."""

    strata: str | None = Field(
        None, description="gallery column to count apart by, or random:100 for 100 random parts"
    )
    group: str | None = Field(None, description="gallery column whose items rank as one")
    blocks: str | None = Field(None, description="gallery column whose items are drawn together")
    top_k: int = Field(0, ge=0, description="how many best items of each query are kept by name")
    pairs_kept: int = Field(
        0, ge=0, description="how many of the largest negative scores are kept"
    )
    tie_order: Literal["position", "id_desc"] = Field(
        "position", description="which of equally scored items comes first"
    )
    keep: Literal["all", "first"] = Field("all", description="first: enough for CMC alone")


class ExpectedTable(Table):
    """Published counts; checked before anything is scored. A list accepts several."""

    n_query: Count | list[Count] | None = Field(None, description="query rows")
    n_gallery: Count | list[Count] | None = Field(None, description="gallery rows given")
    n_gallery_ranked: Count | list[Count] | None = Field(
        None, description="gallery rows not ignored for everybody"
    )
    n_positive_pairs: Count | list[Count] | None = Field(None, description="positive pairs")
    n_ignored_pairs: Count | list[Count] | None = Field(
        None, description="pairs ignored for one query, itself not counted"
    )
    n_no_positive: Count | list[Count] | None = Field(
        None, description="queries without a positive"
    )
