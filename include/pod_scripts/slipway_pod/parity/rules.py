"""The rule that an output must meet, as the command line gives it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from slipway_pod.program.arguments import not_negative, share, whole
from slipway_rules.parity import Rule

MEASURES = ("tolerance", "cosine", "top_k")
RULE_TYPES: dict[str, Callable[[str], Any]] = {
    "abs_tolerance": not_negative,
    "rel_tolerance": not_negative,
    "within_min": share,
    "cosine_min": share,
    "top_k": whole,
    "agreement_min": share,
}


def add_rule_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the rule that outputs must meet."""
    add, default = parser.add_argument, Rule()
    add("--parity-measure", choices=MEASURES, default=default.measure, help="what decides (%(default)s)")
    for key, kind in RULE_TYPES.items():
        name = f"--{key.replace('_', '-')}"
        add(name, type=kind, default=getattr(default, key), metavar="N", help="of the measure (%(default)s)")
    text = 'another rule for one output: {"output": NAME, "measure": …, "cosine_min": …}; may be repeated'
    add("--output-parity", action="append", type=output_rule, default=[], metavar="JSON", help=text)


def output_rule(text: str) -> dict[str, Any]:
    """Return an argument such as `{"output": "label", "measure": "top_k", "agreement_min": 0.99}`."""
    try:
        given = json.loads(text)
        checked = {key: RULE_TYPES[key](str(given[key])) for key in given.keys() & RULE_TYPES}
        known = given.keys() <= {"output", "measure", *RULE_TYPES} and isinstance(given["output"], str)
        if not known or given.get("measure", MEASURES[0]) not in MEASURES:
            raise ValueError(text)
    except (ValueError, AttributeError, KeyError) as error:
        keys = f"measure ({', '.join(MEASURES)}), {', '.join(RULE_TYPES)}"
        raise argparse.ArgumentTypeError(f"expected a JSON object with output and any of {keys}") from error
    return {**given, **checked}


def rule_for(output: str, options: argparse.Namespace) -> Rule:
    """Return the rule of an output: the release's, with the values given for this output alone."""
    rule = {key: getattr(options, key) for key in RULE_TYPES} | {"measure": options.parity_measure}
    for given in options.output_parity:
        if given["output"] == output:
            rule |= {key: value for key, value in given.items() if key != "output"}
    return Rule(**rule)
