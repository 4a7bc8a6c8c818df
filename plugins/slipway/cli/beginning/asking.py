"""Which kind of answers is meant: what the flags say, else what a person says on a terminal, else what fits best."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from slipway.cli.beginning.proposal import Proposal
from slipway.cli.failures import CommandError, ExitCode
from slipway.cli.plain import plain
from slipway_core.identifiers import nearest
from slipway_core.spec.validation import Validation


@dataclass(frozen=True)
class Wanted:
    """What the flags say.

    :ivar kind: of the answers; None: the one that fits best.
    :ivar output: with the answers; None: the one that fits best.
    :ivar asks: a person is asked what the flags do not say.
    """

    kind: str | None = None
    output: str | None = None
    asks: bool = False


def is_terminal() -> bool:
    """Tell whether a person can be asked: both what is read and what is printed is a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def choose(found: Sequence[Proposal], outputs: Sequence[str], wanted: Wanted) -> Proposal:
    """Return the proposal that is meant.

    :param found: what fits, the best first.
    :param outputs: the names of all outputs.
    :raises CommandError: the flags name no kind, no output, or a kind that the output cannot have.
    """
    if wanted.kind is not None and wanted.kind not in (kinds := Validation.registry.names()):
        raise _unknown("kind of answers", "--kind", wanted.kind, kinds)
    if wanted.output is not None and wanted.output not in outputs:
        raise _unknown("output of the model", "--output-name", wanted.output, outputs)
    fits = [one for one in found if wanted.output in (None, one.output)]
    if wanted.kind is not None:
        return _of_kind(fits, wanted.kind)
    best = fits[0]
    if not wanted.asks or best.sureness == "sure":
        return best
    return _asked(fits, best)


def _of_kind(fits: Sequence[Proposal], kind: str) -> Proposal:
    chosen = next((one for one in fits if one.kind == kind), None)
    if chosen is not None:
        return replace(chosen, score=100, why="by --kind")
    raise CommandError(
        f"the answers of `{plain(fits[0].output)}` cannot be of the kind {kind}, to judge by their shape",
        code=ExitCode.USAGE,
        expected=f"one of {', '.join(dict.fromkeys(one.kind for one in fits))}",
        found=kind,
        remedy="choose another output with --output-name, or write the release file by hand: docs/gates.md",
    )


def _asked(fits: Sequence[Proposal], best: Proposal) -> Proposal:
    """Ask the person at the terminal; nothing typed means the proposal."""
    import click

    by_name = {f"{one.kind} {plain(one.output)}": one for one in reversed(fits)}
    named = dict(reversed(by_name.items()))
    print(f"The kind of the answers is uncertain. {best.sureness.capitalize()}:")
    for number, one in enumerate(named.values(), 1):
        print(
            f"  {number}. {one.kind}, of the output `{plain(one.output)}` ({one.sureness}: {plain(one.why)})"
        )
    choice = click.prompt("Which one", type=click.IntRange(1, len(named)), default=1)
    chosen = list(named.values())[choice - 1]
    return replace(chosen, score=100, why="chosen by a person")


def _unknown(what: str, flag: str, given: str, known: Sequence[str]) -> CommandError:
    near = nearest(given, known)
    return CommandError(
        f"{plain(given)!r} is not a known {what}" + (f" (did you mean {plain(near)}?)" if near else ""),
        code=ExitCode.USAGE,
        expected=f"one of {', '.join(plain(one) for one in known)}"[:500],
        found=repr(plain(given)),
        remedy=f"give {flag} another value, or omit it",
    )
