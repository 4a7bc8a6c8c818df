"""Two-person approval: who counts as a person, and as another one.

Approvals, overrides, rejections that are lifted and the first deletion ask here. A person is who Airflow says has
started the run, or has answered; an event, a schedule or another run is nobody.

Names are compared by `canonical_name`: two that a reader could take for one are one person. That errs on the safe side:
whoever is taken for the same person may not do it alone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from slipway_core.errors import UserError

# Small letters of other alphabets that look like a Latin one.
_LOOKS_LIKE = str.maketrans(
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u0456\u0458\u0501\u051b\u051d\u04bb\u04cf"
    "\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03b3\u0251\u0261\u0131\u0237\u03f3",
    "abekmhopctyxsijdqwhlaeikvoptuxyagijj",
)


def canonical_name(name: str | None) -> str:
    """Return the form of a name by which two people are distinguished; "" for nobody.

    Compatibility forms are made one (NFKC), capitals small, letters that look like a Latin one that letter; what is not
    seen (control and format characters, spaces around it) is left out.
    """
    text = unicodedata.normalize("NFKC", name or "").casefold()
    seen = "".join(one for one in text if unicodedata.category(one) not in ("Cc", "Cf", "Co", "Cn", "Cs"))
    # Once more: letters that casefold has made, and what stood on both sides of something unseen.
    return " ".join(unicodedata.normalize("NFKC", seen).casefold().translate(_LOOKS_LIKE).split())


def is_same_person(one: str | None, other: str | None) -> bool:
    """Return whether both are known, and may be one person."""
    return canonical_name(one) != "" and canonical_name(one) == canonical_name(other)


def is_other_person(who: str | None, others: Iterable[str | None]) -> bool:
    """Return whether a person is known and differs from all the others.

    :param others: None and "" stand for nobody.
    """
    return canonical_name(who) != "" and not any(is_same_person(who, other) for other in others)


def are_two_people(agreed: Iterable[str | None], started_by: str | None) -> bool:
    """Return whether two people stand behind what one has started and others have agreed to.

    What no person has started (an event, a schedule, another run) needs two who agree: who has uploaded a version is
    not known, and may be the first of them.
    """
    people = {canonical_name(one) for one in (*agreed, started_by)} - {""}
    return len(people) > 1


def require_person(who: str | None) -> str:
    """Return the name of the person who started a run.

    :raises UserError: the person is unknown: a schedule, an event or another run started it.
    """
    if who and canonical_name(who):
        return who
    raise UserError(
        "it is unknown who requested this",
        expected="a run that a person has started, in Airflow's UI or over its REST API",
        found="a run that a schedule, an event or another run started",
        remedy="start it by hand, under your own name",
    )


def require_other_person(
    who: str | None, others: Iterable[str | None], *, may: str, than: str, found: str, instead: str = ""
) -> str:
    """Return the name of a person who differs from all the others.

    :param others: who may not; None and "" stand for nobody.
    :param may: what the person wants to do, such as "override this freeze".
    :param than: who the others are.
    :param found: what is decided already.
    :param instead: what else could be done.
    :raises UserError: the person is unknown, or it is one of the others.
    """
    person = require_person(who)
    if is_other_person(person, others):
        return person
    raise UserError(
        f"{person} may not {may}",
        expected=f"a person other than {than}",
        found=found,
        remedy=f"ask a colleague to start this run{instead}",
    )
