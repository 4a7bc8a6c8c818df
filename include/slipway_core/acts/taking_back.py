"""Acts that move users back: off a live version, or off a release that must not continue."""

from __future__ import annotations

from slipway_core.acts.act import Act, Command
from slipway_core.acts.run_name_parts import Conf, model
from slipway_core.acts.situation import Availability, Available, Refused, Situation, has_users
from slipway_core.identifiers import parse_version


def _rollback(now: Situation) -> Availability:
    """Return whether a rollback is possible; without a named version it always is, whatever the documents say."""
    live, before = now.document.live_version, now.document.previous_version
    if now.version is not None:
        return _rollback_to(now, now.version)
    if now.open is not None and (now.open.is_rollback or now.open.rolling_back):
        return Available("A rollback is already under way. Another one leads to the same version.")
    if now.open is not None and has_users(now.open):
        to = "the stable version" if live is None else f"version {live}"
        return Available(
            f"Users leave version {now.open.version} within seconds; {to} has all of them. "
            f"Version {now.open.version} is rejected."
        )
    if live is None or before is None:
        known = "no live version" if live is None else f"no version that was live before version {live}"
        return Available(f"The records name {known}. The rollback reads the cluster instead.")
    return Available(f"All users move from version {live} to version {before}. Version {live} is rejected.")


def _rollback_to(now: Situation, version: int) -> Availability:
    live, line = now.document.live_version, now.line
    if version == live and now.open is None:
        return Refused(f"Version {version} is live.", now.look)
    if line is None or line.standing != "promoted":
        return Refused(
            f"Version {version} was never promoted, or has been rolled back since.",
            f"slipway release {now.model} {version}",
        )
    if line.rejection is not None:
        return Refused(
            f"Version {version} was {line.rejection.sentence}.",
            f'slipway unreject {now.model} {version} --reason "…"',
        )
    if line.files_gone:
        return Refused(f"The files of version {version} were deleted.", now.look)
    if live is not None and version > live:
        return Available(f"Version {version} is newer than the live version, so another person must approve.")
    return Available(
        f"All users move to version {version} after it has answered on staging as it did before."
    )


def _rollback_name(conf: Conf) -> str:
    to = conf.get("version")
    return f"{model(conf)}-rollback" + ("" if to is None else f"-to-{parse_version(to)}")


def _abort(now: Situation) -> Availability:
    if now.open is None:
        return Refused(f"No release of {now.model} is under way.", now.look)
    if now.open.is_rollback:
        return Refused(
            "A rollback is under way. Aborting it could leave users on the bad version.", now.watch
        )
    if now.open.rolling_back:
        return Refused("A rollback is already under way.", now.watch)
    return Available()


ROLLBACK = Act(
    name="rollback",
    title="Roll back",
    description="Moves all users off the canary if one is under way; otherwise to the previous live version.",
    means="start_run",
    workflow="rollback",
    required=("model", "reason"),
    optional=("version", "newer", "emergency"),
    possible=_rollback,
    run_name=_rollback_name,
    alarming=True,
    on_old_data=True,
    places=frozenset({"model", "open_release"}),
    offered="older",
    emphasis="danger",
    command=Command(
        "Move all users off the canary if one is under way; otherwise to the previous live version.\n\n"
        "Waits until the bad version has 0 % of the traffic, then until the rollback ends. --no-wait returns at once.",
        (
            'slipway rollback digits --reason "wrong labels"',
            'slipway rollback digits --to 2 -m "slow answers"',
        ),
        group="Act",
        next_command="slipway get {model} -w",
        ending="rollback",
        timeout="30m",
    ),
)
ABORT = Act(
    name="abort",
    title="Abort",
    description="Stops the release. Users go back to the stable version; the version is not rejected.",
    means="fail_run",
    workflow="release",
    required=("model", "release_id", "reason"),
    possible=_abort,
    alarming=True,
    on_old_data=True,
    places=frozenset({"open_release"}),
    emphasis="danger",
    command=Command(
        "Stop the release under way. Users go back to the stable version; the version is not rejected.",
        ('slipway abort digits --reason "wrong data set"',),
        group="Act",
        next_command="slipway get {model} -w",
        ending="abort",
        waits=False,
        timeout="30m",
    ),
)
