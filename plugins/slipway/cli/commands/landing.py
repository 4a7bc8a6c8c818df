"""The commands that lay a version below `incoming/`: one of your own, or a sample to try releases with."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slipway.cli.arguments import ModelArgument, VersionArgument
from slipway.cli.commands.local import PANEL
from slipway.cli.failures import CommandError, ExitCode
from slipway.cli.invocation import Invocation, OutputOption, command
from slipway.cli.output import Format

if TYPE_CHECKING:
    from slipway.cli.beginning.uploading import Uploaded

BucketOption = Annotated[str, typer.Option("--bucket", help="The bucket, if the configuration names none.")]
ByHandOption = Annotated[bool, typer.Option("--by-hand", help="Do not start a release after the upload.")]


class Kind(StrEnum):
    """Which sample."""

    GOOD = "good"
    SLOW = "slow"
    WRONG = "wrong"
    BROKEN = "broken"


def add_to(app: typer.Typer) -> None:
    """Declare the commands."""
    command(app, "sample", PANEL, examples=("slipway sample good", "slipway sample wrong --to /tmp/wrong"))(
        sample
    )
    command(
        app,
        "upload",
        PANEL,
        examples=(
            "slipway upload churn 7 model.onnx golden.npz",
            "slipway upload churn 7 model.onnx golden.npz --dataset-version 2026-11 --accuracy 0.93 --by-hand",
        ),
    )(upload)


def sample(
    invocation: Invocation,
    kind: Annotated[Kind, typer.Argument(help="good is promoted; a gate refuses each of the others.")],
    model: Annotated[
        str, typer.Option("--model", help="The model; it needs a release file (digits has one).")
    ] = "digits",
    to: Annotated[
        Path | None, typer.Option("--to", help="Write the files into this folder instead of uploading them.")
    ] = None,
    by_hand: ByHandOption = False,
    bucket: BucketOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Make a version of a model from bundled data, upload it as the next version, and say what to do next.

    The data are scikit-learn's handwritten digits. good: a small neural network. slow: the same answers, tens of
    milliseconds later. wrong: it answers every digit with the next one. broken: half of the file. Start with good, so
    that a version is live to compare the others with.
    """
    from slipway.cli.beginning.uploading import next_version
    from slipway.cli.beginning.uploading import upload as lay
    from slipway.cli.checking.verifying import opened_bucket
    from slipway_core.identifiers import validate_model_name

    name = validate_model_name(model)
    if to is not None:
        made = _made(invocation, kind, name, 1, by_hand=by_hand)
        to.mkdir(parents=True, exist_ok=True)
        for file, content in made.items():
            (to / file).write_bytes(content)
        invocation.printer.say(
            f"{', '.join(made)} are in {to}. Next: slipway upload {name} VERSION {to}/model.onnx {to}/golden.npz"
        )
        return
    with opened_bucket(invocation, bucket, f"sample {kind}") as store:
        version = next_version(store, name)
        made = _made(invocation, kind, name, version, by_hand=by_hand)
        ready = made.pop("ready.json")
        landed = lay(store, name, version, made, ready)
    _show(invocation, landed, output, by_hand=by_hand)
    if output is Format.TABLE:
        from slipway_digit_models.samples import EXPECTED

        invocation.printer.say(f"What to expect: {EXPECTED[kind.value]}")


def upload(
    invocation: Invocation,
    model: ModelArgument,
    version: VersionArgument,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…", help="The file that the release file names.", exists=True, dir_okay=False
        ),
    ],
    dataset_version: Annotated[
        str | None, typer.Option("--dataset-version", help="Version of the training data.")
    ] = None,
    accuracy: Annotated[
        float | None, typer.Option("--accuracy", min=0, max=1, help="Accuracy in training, 0 to 1.")
    ] = None,
    framework: Annotated[str | None, typer.Option("--framework", help="Framework that trained it.")] = None,
    by_hand: ByHandOption = False,
    bucket: BucketOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Upload a version as a training job does: first its files, and last ready.json with their digests.

    An uploaded version is never replaced. The command writes to the bucket and does not contact Airflow. Credentials
    are the sandbox's, or those that boto3 finds (AWS_PROFILE, a role).
    """
    from slipway.cli.beginning.uploading import ready_file
    from slipway.cli.beginning.uploading import upload as lay
    from slipway.cli.checking.verifying import opened_bucket

    by_name = {path.name: path for path in files}
    if len(by_name) < len(files):
        raise CommandError(
            "two of the files have the same name",
            code=ExitCode.USAGE,
            expected="files with different names",
            found=", ".join(str(path) for path in files),
            remedy="rename one of them: each is uploaded under its name, without its folder",
        )
    metadata = {
        "dataset_version": dataset_version,
        "accuracy": accuracy,
        "framework": framework,
        "start": "by_hand" if by_hand else None,
    }
    ready = ready_file(model, version, by_name, metadata)
    with opened_bucket(invocation, bucket, f"upload {model} {version}") as store:
        landed = lay(store, model, version, by_name, ready)
    _show(invocation, landed, output, by_hand=by_hand)


def _made(invocation: Invocation, kind: Kind, model: str, version: int, *, by_hand: bool) -> dict[str, bytes]:
    try:
        from slipway_digit_models.samples import make_sample

        return make_sample(kind.value, model, version, trained_at=invocation.clock.now(), by_hand=by_hand)
    except ImportError as error:
        raise CommandError(
            "a sample needs scikit-learn, skl2onnx and onnx, and at least one of them is not installed here",
            code=ExitCode.USAGE,
            expected="the environment from `make setup`, or the extra `sample`",
            found=str(error),
            remedy="run it in the project's environment: .venv/bin/slipway sample …",
        ) from None


def _show(invocation: Invocation, landed: Uploaded, output: Format, *, by_hand: bool) -> None:
    if output is not Format.TABLE:
        invocation.printer.show(landed.as_json())
        return
    invocation.printer.say(
        f"{landed.model} version {landed.version} was uploaded to {landed.uri}: {', '.join(landed.names)}"
    )
    follow = f"slipway get {landed.model} -w"
    invocation.printer.say(
        f"Next: slipway release {landed.model} {landed.version} --wait"
        if by_hand
        else f"If the bucket sends events, a release starts automatically. Next: {follow}"
    )
