"""Can a source see errors at all? A label that the error selector needs, and that no series carries, counts none.

Relabelling that drops `response_code` leaves the requests and hides every error: "0 errors in 3300". So what a selector
needs is read off the selector itself, whoever wrote it, and looked for in the series that count the requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slipway_core.selectors import matchers_of

Labels = Mapping[str, str]
_NAME = "__name__"


@dataclass(frozen=True)
class Needed:
    """What one selector of errors needs: the name of its series, and labels that these must carry.

    `metric` is "" if the name is a pattern: then the name itself tells errors from requests.
    """

    selector: str
    metric: str
    labels: frozenset[str]


def needed_by(selector: str) -> Needed:
    """Return what a selector of errors needs of the series that it chooses from.

    A matcher that accepts the empty text accepts a series without the label.

    :raises ValueError: it is no plain selector.
    """
    metric, labels = "", set()
    for label, operator, value in matchers_of(selector):
        if label == _NAME:
            metric = value if operator == "=" else ""
        elif not _accepts_nothing(operator, value):
            labels.add(label)
    return Needed(selector, metric, frozenset(labels))


def code_labels(errors: Iterable[str], requests: Iterable[str]) -> frozenset[str]:
    """Return the labels by which the selectors of errors choose among the requests."""
    of_requests = {label for selector in requests for label, _, _ in matchers_of(selector)}
    of_errors = {label for selector in errors for label, _, _ in matchers_of(selector)}
    return frozenset(of_errors - of_requests - {_NAME})


def unseen_errors(
    requests: Sequence[str],
    errors: Sequence[str],
    counted: Iterable[tuple[Labels, bool]],
    found_errors: Iterable[Labels],
) -> str | None:
    """Return in words why errors would not be seen in these series; None if they would.

    :param requests: the selectors of requests, filled in; what they ask for the series carry.
    :param errors: the selectors of errors, filled in.
    :param counted: the labels of each series of requests, and whether it has counted any.
    :param found_errors: the labels of the series that the selectors of errors found.
    """
    series = [labels for labels, has_counted in counted if has_counted]
    if not series:
        return None
    has = {label for selector in requests for label, _, _ in matchers_of(selector)}
    needs = [replace(need, labels=need.labels - has) for need in map(needed_by, errors)]
    names = {labels.get(_NAME, "") for labels in series}
    for name in sorted(names):
        ours = [need for need in needs if need.metric == name]
        if ours and not any(need.labels <= _carried(labels) for need in ours for labels in _of(series, name)):
            carried = _carried(_of(series, name)[0])
            lacking = sorted({label for need in ours for label in need.labels - carried})
            return f"no series of {name} carries the label {' or '.join(lacking)}, which identifies errors"
    apart = [need for need in needs if need.metric and need.metric not in names]
    # A part of the requests may be counted by the errors' own series.
    if apart and len(apart) == len(needs) and not list(found_errors):
        return f"there is no series {' or '.join(sorted({need.metric for need in apart}))}, which would count errors"
    return None


def lacks_status(series: Iterable[Labels], rule: tuple[str, str, str] | None) -> str | None:
    """Return in words that calls of a protocol carry no status of it; None if they do, or there are none.

    :param rule: a label, its value for the protocol, and the label of the status.
    """
    if rule is None:
        return None
    label, value, status = rule
    calls = [labels for labels in series if labels.get(label) == value]
    if not calls or any(labels.get(status) for labels in calls):
        return None
    return f'no series with {label}="{value}" carries the label {status}, which identifies its errors'


def _of(series: Sequence[Labels], name: str) -> list[Labels]:
    return [labels for labels in series if labels.get(_NAME, "") == name]


def _carried(labels: Labels) -> set[str]:
    return {label for label, value in labels.items() if value}


def _accepts_nothing(operator: str, value: str) -> bool:
    """Return whether a matcher accepts a series that lacks the label."""
    if operator in ("=", "!="):
        return (value == "") == (operator == "=")
    try:
        return (re.fullmatch(value, "") is not None) == (operator == "=~")
    except re.error:
        # RE2 has what Python's has not; Prometheus itself says what is wrong with it.
        return False
