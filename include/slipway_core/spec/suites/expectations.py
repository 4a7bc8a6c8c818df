"""One expectation of a suite, as great-expectations writes it: whitelisted, limited, and never run as code.

Left out of the library are those that evaluate a text: regular expressions (one can take forever), row conditions
(pandas evaluates them) and SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, model_validator

from slipway_core.spec.parts import SpecPart, Text

SUITE_LIMIT = 100
_VALUES_LIMIT = 1000
_TEXT_LIMIT = 500
_LARGEST = 1e300

_BETWEEN = frozenset({"min_value", "max_value", "strict_min", "strict_max"})
_COLUMN = frozenset({"column"})
_MOSTLY = frozenset({"mostly"})
# By type: the arguments that must be there, and those that may.
_ARGUMENTS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "expect_table_row_count_to_be_between": (frozenset(), _BETWEEN),
    "expect_table_row_count_to_equal": (frozenset({"value"}), frozenset()),
    "expect_table_column_count_to_be_between": (frozenset(), frozenset({"min_value", "max_value"})),
    "expect_table_column_count_to_equal": (frozenset({"value"}), frozenset()),
    "expect_table_columns_to_match_set": (frozenset({"column_set"}), frozenset({"exact_match"})),
    "expect_column_to_exist": (_COLUMN, frozenset()),
    "expect_column_mean_to_be_between": (_COLUMN, _BETWEEN),
    "expect_column_median_to_be_between": (_COLUMN, _BETWEEN),
    "expect_column_min_to_be_between": (_COLUMN, _BETWEEN),
    "expect_column_max_to_be_between": (_COLUMN, _BETWEEN),
    "expect_column_sum_to_be_between": (_COLUMN, _BETWEEN),
    "expect_column_stdev_to_be_between": (_COLUMN, _BETWEEN),
    "expect_column_quantile_values_to_be_between": (_COLUMN | {"quantile_ranges"}, frozenset()),
    "expect_column_unique_value_count_to_be_between": (_COLUMN, _BETWEEN),
    "expect_column_proportion_of_unique_values_to_be_between": (_COLUMN, _BETWEEN),
    "expect_column_proportion_of_non_null_values_to_be_between": (_COLUMN, _BETWEEN),
    "expect_column_distinct_values_to_be_in_set": (_COLUMN | {"value_set"}, frozenset()),
    "expect_column_distinct_values_to_equal_set": (_COLUMN | {"value_set"}, frozenset()),
    "expect_column_distinct_values_to_contain_set": (_COLUMN | {"value_set"}, frozenset()),
    "expect_column_most_common_value_to_be_in_set": (_COLUMN | {"value_set"}, frozenset({"ties_okay"})),
    "expect_column_values_to_be_between": (_COLUMN, _BETWEEN | _MOSTLY),
    "expect_column_values_to_be_in_set": (_COLUMN | {"value_set"}, _MOSTLY),
    "expect_column_values_to_not_be_in_set": (_COLUMN | {"value_set"}, _MOSTLY),
    "expect_column_values_to_not_be_null": (_COLUMN, _MOSTLY),
    "expect_column_values_to_be_null": (_COLUMN, _MOSTLY),
    "expect_column_values_to_be_unique": (_COLUMN, _MOSTLY),
    "expect_column_value_lengths_to_equal": (_COLUMN | {"value"}, _MOSTLY),
    "expect_column_value_lengths_to_be_between": (_COLUMN, _BETWEEN | _MOSTLY),
    "expect_column_value_z_scores_to_be_less_than": (_COLUMN | {"threshold", "double_sided"}, _MOSTLY),
    "expect_column_pair_values_to_be_equal": (frozenset({"column_A", "column_B"}), _MOSTLY),
    "expect_column_pair_values_a_to_be_greater_than_b": (
        frozenset({"column_A", "column_B"}),
        _MOSTLY | {"or_equal"},
    ),
}
# Why one of the library's is not taken, by a part of its name.
_WHY_NOT = {
    "regex": "a regular expression can run forever",
    "pattern": "it needs a database",
    "strftime": "it reads each text by a format",
    "parseable": "it reads each text by a parser",
    "json": "it reads each text by a parser",
    "query": "it runs SQL",
    "rows_expectation": "it runs SQL",
    "other_table": "it runs SQL",
}
_TEXTS = frozenset({"column", "column_A", "column_B"})
_FLAGS = frozenset({"strict_min", "strict_max", "ties_okay", "double_sided", "or_equal", "exact_match"})


class Expectation(SpecPart):
    """One expectation of a table's column, as great-expectations writes it into a suite."""

    type: Text
    """Its name in snake_case, such as `expect_column_mean_to_be_between`; only those are taken that compare values."""
    kwargs: dict[str, JsonValue] = Field(default_factory=dict)
    """Its arguments, such as `column`, `min_value` and `max_value`."""
    policy: Literal["fail", "warn"] | None = None
    """What follows if it is not met: the version fails, or the report warns. Default: `fail` where `severity` is
    `critical`.
    """
    severity: Literal["critical", "warning", "info"] = "critical"
    """The library's own word; all but `critical` mean `warn`."""
    description: Annotated[str, Field(max_length=_TEXT_LIMIT)] | None = None
    """In words, for the page; left out, it is made of type and arguments."""
    meta: dict[str, JsonValue] | None = None
    """Ignored, except for `policy`, which counts where the key above is left out."""
    notes: JsonValue = None
    """Ignored."""
    id: str | None = None
    """Ignored."""
    rendered_content: JsonValue = None
    """Ignored."""

    @property
    def decides(self) -> Literal["fail", "warn"]:
        """Return what follows where it is not met."""
        said = self.policy or (self.meta or {}).get("policy")
        if said in ("fail", "warn"):
            return "fail" if said == "fail" else "warn"
        return "fail" if self.severity == "critical" else "warn"

    @property
    def meaning(self) -> str:
        """Return it in words."""
        return self.description or _in_words(self.type, self.kwargs)

    def as_item(self) -> dict[str, Any]:
        """Return `{"type", "kwargs", "meaning", "policy", "description"}`, as what runs the suite takes it."""
        return {
            "type": self.type,
            "kwargs": dict(self.kwargs),
            "meaning": self.meaning,
            "policy": self.decides,
            "description": self.description,
        }

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        if self.type not in _ARGUMENTS:
            raise ValueError(f"`{self.type[:80]}` is not a supported expectation{_why_not(self.type)}")
        said = (self.meta or {}).get("policy")
        if said not in (None, "fail", "warn"):
            raise ValueError("`meta.policy` must be fail or warn")
        needed, allowed = _ARGUMENTS[self.type]
        missing, unknown = needed - self.kwargs.keys(), self.kwargs.keys() - needed - allowed
        if missing or unknown:
            wrong = [f"`{name}` is missing" for name in sorted(missing)]
            wrong += [f"`{name[:80]}` is not taken" for name in sorted(unknown)]
            raise ValueError(f"the arguments of `{self.type}`: {', '.join(wrong)}")
        if allowed >= _BETWEEN and {"min_value", "max_value"}.isdisjoint(self.kwargs):
            raise ValueError(f"`{self.type}` needs `min_value` or `max_value`")
        for name, value in self.kwargs.items():
            problem = _argument_problem(name, value)
            if problem:
                raise ValueError(f"`{name}` of `{self.type}` {problem}")
        return self


def _why_not(type_: str) -> str:
    """Say why a type is not taken, or which is meant."""
    if type_.startswith(("expect_", "unexpected_")):
        for part, why in _WHY_NOT.items():
            if part in type_:
                return f": {why}"
    near = get_close_matches(type_[:_TEXT_LIMIT], _ARGUMENTS, n=1)
    meant = f"; did you mean `{near[0]}`?" if near else f"; known are {', '.join(sorted(_ARGUMENTS))}"
    return f", and classes of your own are not loaded{meant}"


def _argument_problem(name: str, value: Any) -> str:
    """Return what is wrong with an argument's value; empty if nothing is."""
    if name in _TEXTS:
        return "" if _is_text(value) else "must be a column's name"
    if name in _FLAGS:
        return "" if isinstance(value, bool) else "must be true or false"
    if name == "column_set":
        fits = isinstance(value, list) and 0 < len(value) <= _VALUES_LIMIT and all(map(_is_text, value))
        return "" if fits else f"must be a list of 1 to {_VALUES_LIMIT} names of columns"
    if name == "value_set":
        fits = isinstance(value, list) and 0 < len(value) <= _VALUES_LIMIT and all(map(_is_plain, value))
        return "" if fits else f"must be a list of 1 to {_VALUES_LIMIT} numbers or texts"
    if name == "quantile_ranges":
        return (
            "" if _are_quantiles(value) else 'must be {"quantiles": […], "value_ranges": [[LEAST, MOST], …]}'
        )
    if not _is_number(value):
        return "must be a number"
    return "must be from 0 to 1" if name == "mostly" and not 0 <= value <= 1 else ""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _TEXT_LIMIT


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _TEXT_LIMIT
    return isinstance(value, bool) or _is_number(value)


def _is_number(value: Any) -> bool:
    """Return whether it is a finite number; no column could hold an integer of hundreds of digits."""
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and -_LARGEST <= value <= _LARGEST


def _are_quantiles(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"quantiles", "value_ranges"}:
        return False
    quantiles, ranges = value["quantiles"], value["value_ranges"]
    if not isinstance(quantiles, list) or not isinstance(ranges, list) or len(quantiles) != len(ranges):
        return False
    shares = all(_is_number(one) and 0 <= one <= 1 for one in quantiles)
    pairs = all(
        isinstance(pair, list) and len(pair) == 2 and all(end is None or _is_number(end) for end in pair)
        for pair in ranges
    )
    return 0 < len(quantiles) <= 20 and shares and pairs


def _in_words(type_: str, kwargs: Mapping[str, Any]) -> str:
    words = type_.removeprefix("expect_").replace("_", " ")
    column = kwargs.get("column")
    if column is not None:
        words = words.replace("column", f"`{column}`", 1)
    rest = ", ".join(f"{name} {_shown(value)}" for name, value in kwargs.items() if name != "column")
    return f"{words}: {rest}" if rest else words


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
