"""Acts on freezes: hold every start and raise, lift that, let one version pass."""

from __future__ import annotations

from slipway_core.acts.act import Act, Command
from slipway_core.acts.run_name_parts import followed_by, model_or_all, version
from slipway_core.acts.situation import Availability, Available, Refused, Situation
from slipway_core.four_eyes import is_same_person


def _freeze(_now: Situation) -> Availability:
    return Available()


def _thaw(now: Situation) -> Availability:
    if now.freezes is not None and not now.freezes:
        return Refused(
            f"{now.model} has no freeze.",
            f'slipway freeze --model {now.model} --until … --reason "…"',
        )
    return Available()


def _override(now: Situation) -> Availability:
    held = "" if now.open is None else now.open.held
    if now.freezes is not None and not now.freezes and not held:
        return Refused(f"Nothing holds {now.model}.", now.look)
    own = next((one for one in now.freezes or () if is_same_person(one.by, now.person)), None)
    if own is not None:
        return Refused(
            "You created this freeze, so another person must override it.",
            f'slipway thaw --model {now.model} --reason "…"',
        )
    return Available()


FREEZE = Act(
    name="freeze",
    title="Freeze",
    description="Blocks release starts and traffic increases until a given time. Rollbacks are never blocked.",
    means="start_run",
    workflow="freeze",
    required=("until", "reason"),
    optional=("model", "evidence"),
    possible=_freeze,
    run_name=followed_by(model_or_all, "freeze"),
    action="freeze",
    on_old_data=True,
    places=frozenset({"model"}),
    command=Command(
        "Block release starts and traffic increases until a given time. Rollbacks are never blocked.",
        (
            'slipway freeze --until 4h --reason "incident 12"',
            'slipway freeze --model digits --until 2026-12-28T08:00Z -m "holidays"',
        ),
        next_command="slipway list",
    ),
)
THAW = Act(
    name="thaw",
    title="Thaw",
    description="Lifts the freezes of the model, or those for all models if no model is named.",
    means="start_run",
    workflow="freeze",
    required=("reason",),
    optional=("model", "evidence"),
    possible=_thaw,
    run_name=followed_by(model_or_all, "thaw"),
    action="thaw",
    places=frozenset({"model"}),
    command=Command(
        "Lift the freezes of a model before they end, or those for all models without --model.",
        ('slipway thaw --reason "incident 12 is over"',),
        next_command="slipway list",
    ),
)
OVERRIDE = Act(
    name="override",
    title="Override",
    description="Lets one version continue despite the current freezes and release windows.",
    means="start_run",
    workflow="freeze",
    required=("model", "version", "reason"),
    optional=("evidence",),
    possible=_override,
    run_name=followed_by(version, "override"),
    action="override",
    alarming=True,
    command=Command(
        "Let one version continue despite the current freezes and release windows. The author of a freeze can't "
        "override it.",
        ('slipway override digits 3 --reason "fixes incident 12"',),
        next_command="slipway get {model} -w",
    ),
)
