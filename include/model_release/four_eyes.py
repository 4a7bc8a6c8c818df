"""Four eyes: who counts as a person, and as another one.

Approvals, overrides, rejections that are lifted and the first deletion ask here. A person is who Airflow says has
started the run, or has answered; an event, a schedule or another run is nobody.
"""

from __future__ import annotations

from collections.abc import Iterable

from include.model_release.errors import UserError


def is_other_person(who: str | None, others: Iterable[str | None]) -> bool:
    """Return whether a person is known, and is none of the others.

    :param others: None and "" stand for nobody.
    """
    return bool(who) and who not in {other for other in others if other}


def require_person(who: str | None) -> str:
    """Return the name of the person who started a run.

    :raises UserError: nobody knows who it is: a schedule, an event or another run started it.
    """
    if who:
        return who
    raise UserError(
        "nobody knows who asks for this",
        expected="a run that a person has started, in Airflow's UI or over its REST API",
        found="one that a schedule, an event or another run has started",
        remedy="start it by hand, under your own name",
    )


def require_other_person(
    who: str | None, others: Iterable[str | None], *, may: str, than: str, found: str, instead: str = ""
) -> str:
    """Return the name of a person who is none of the others.

    :param others: who may not; None and "" stand for nobody.
    :param may: what the person wants to do, such as "override this freeze".
    :param than: who the others are.
    :param found: what is decided already.
    :param instead: what else could be done.
    :raises UserError: nobody knows who it is, or it is one of the others.
    """
    person = require_person(who)
    if is_other_person(person, others):
        return person
    raise UserError(
        f"{person} may not {may}",
        expected=f"another person than {than}",
        found=found,
        remedy=f"ask a colleague to start this run{instead}",
    )
