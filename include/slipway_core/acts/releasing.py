"""Acts on a release: start it, pause its canary, resume it."""

from __future__ import annotations

from slipway_core.acts.act import Act, Command
from slipway_core.acts.run_name_parts import followed_by, model, version
from slipway_core.acts.situation import Availability, Available, Refused, Situation, has_users
from slipway_core.record.stage_names import stage_name


def _release(now: Situation) -> Availability:
    version, line, live = now.version, now.line, now.document.live_version
    if now.open is not None and now.open.version == version:
        return Refused(
            f"Version {version} is already being released by the run {now.open.release_id}.", now.watch
        )
    if version is None or line is None:
        return Available()
    again = f"slipway release {now.model} {version} --force"
    if line.rejection is not None:
        return Refused(
            f"Version {version} was {line.rejection.sentence}.",
            f'slipway unreject {now.model} {version} --reason "…"',
        )
    if line.files_gone:
        return Refused(
            f"The files of version {version} were deleted, and its number cannot be used again.", now.look
        )
    if now.force:
        return Available()
    if version == live:
        return Refused(f"Version {version} is live.", again)
    if line.standing == "promoted" and live is not None and version < live:
        return Refused(
            f"Version {version} was live before.", f'slipway rollback {now.model} --to {version} --reason "…"'
        )
    if line.standing:
        outcome = "promoted" if line.standing == "promoted" else "rolled back"
        return Refused(f"Version {version} has had users before: it was {outcome}.", again)
    if live is not None and version < live:
        return Refused(f"A newer version, {live}, is live.", again)
    return Available()


def _canary(now: Situation) -> Refused | None:
    """Return why there is no canary to pause or to resume."""
    if now.open is None:
        return Refused(f"No release of {now.model} is under way.", now.look)
    if now.open.is_rollback or now.open.rolling_back:
        return Refused("A rollback is under way.", now.watch)
    if not has_users(now.open):
        stage = stage_name(now.open.stage) if now.open.stage else "its beginning"
        return Refused(f"Version {now.open.version} has no users yet: the release is at {stage}.", now.watch)
    return None


def _pause(now: Situation) -> Availability:
    if now.paused:
        return Refused(f"The canary is already paused: {now.paused}", f"slipway resume {now.model}")
    return _canary(now) or Available()


def _resume(now: Situation) -> Availability:
    refused = _canary(now)
    if refused is None and not now.paused:
        return Refused("The canary is not paused.", f"slipway pause {now.model}")
    return refused or Available()


RELEASE = Act(
    name="release",
    title="Release",
    description="Starts a release: every gate on staging, then the canary on live traffic.",
    means="start_run",
    workflow="release",
    required=("model", "version"),
    optional=("reason", "force", "wait_for_approval"),
    possible=_release,
    run_name=version,
    alarming=True,
    one_at_a_time=True,
    any_reason=True,
    places=frozenset({"model"}),
    offered="landed",
    command=Command(
        "Start a release: every gate on staging, then the canary on live traffic. With --wait, report how it ended.\n\n"
        "Exit code with --wait: 0 promoted; 1 refused, rolled back, failed or stopped; 5 not finished in time.",
        (
            "slipway release digits 3",
            "slipway release digits 3 --wait --timeout 1h && ./tell-the-team",
        ),
        group="Act",
        next_command="slipway get {model} -w",
        ending="release",
        waits=False,
        timeout="0",
    ),
)
PAUSE = Act(
    name="pause",
    title="Pause",
    description="Keeps the candidate at its weight. The judge keeps watching and can still roll it back.",
    means="start_run",
    workflow="pause",
    required=("model",),
    optional=("reason",),
    possible=_pause,
    run_name=followed_by(model, "pause"),
    action="pause",
    on_old_data=True,
    places=frozenset({"open_release"}),
    command=Command(
        "Keep the candidate at its weight. The judge keeps watching and can still roll it back.",
        ('slipway pause digits --reason "looking at the errors"',),
        group="Act",
    ),
)
RESUME = Act(
    name="resume",
    title="Resume",
    description="Ends the pause. The release raises the weight as soon as nothing else holds it.",
    means="start_run",
    workflow="pause",
    required=("model",),
    optional=("reason",),
    possible=_resume,
    run_name=followed_by(model, "resume"),
    action="resume",
    places=frozenset({"open_release"}),
    command=Command(
        "End a pause: the release raises its next weight as soon as nothing else holds it.",
        ("slipway resume digits",),
        group="Act",
        next_command="slipway get {model} -w",
    ),
)
