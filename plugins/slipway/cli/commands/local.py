"""The commands that ask no Airflow: about files, and about what lies in the bucket."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slipway.cli.arguments import ModelArgument, VersionArgument
from slipway.cli.failures import CommandError, ExitCode
from slipway.cli.invocation import Invocation, OutputOption, command
from slipway.cli.output import Format
from slipway_core.written_numbers import counted

PANEL = "Begin and check"


def add_to(app: typer.Typer) -> None:
    """Declare the commands."""
    command(
        app,
        "init",
        PANEL,
        online=False,
        examples=(
            "slipway init pets --onnx pets.onnx",
            "slipway init pets --onnx pets.onnx --into include/releases",
        ),
    )(init)
    command(
        app,
        "lint",
        PANEL,
        online=False,
        examples=(
            "slipway lint include/releases/digits.yaml",
            "slipway lint *.yaml",
            "slipway lint pets.yaml --model pets.onnx --golden pets-golden.npz",
        ),
    )(lint)
    command(
        app,
        "verify",
        PANEL,
        asks_airflow=False,
        examples=("slipway verify digits 3", "slipway verify digits 3 --bucket models"),
    )(verify)
    command(
        app, "store-check", PANEL, examples=("slipway store-check", "slipway store-check --bucket models")
    )(store_check)


def lint(
    invocation: Invocation,
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Release files.")],
    model: Annotated[
        Path | None,
        typer.Option("--model", help="The model's file or folder, for one release file.", exists=True),
    ] = None,
    golden: Annotated[
        Path | None,
        typer.Option("--golden", help="The golden set, for one release file.", exists=True, dir_okay=False),
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Check release files: show each error with its line, and the closest known key for an unknown one.

    A note says what the canary's metrics source cannot see.

    With --model, it also checks that the model, the release file's `serving` and the config.pbtxt in the same folder
    fit together, and that servers can load them. With --golden, it checks that the golden set fits the model's inputs.
    Both work before any upload. Tensors are read from ONNX files only, with the library onnx (the extra `init`).
    Exit code: 0 all files are valid; 2 at least one is not.
    """
    from slipway.cli.checking.linting import lint_file

    if (model or golden) and len(files) != 1:
        raise CommandError(
            "a model and a golden set belong to one release file",
            code=ExitCode.USAGE,
            expected="one release file with --model or --golden",
            found=counted(len(files), "file"),
            remedy="lint them one by one",
        )
    found = [lint_file(path, model, golden) for path in files]
    faults = [one for one in found if one.error is not None]
    if output is not Format.TABLE:
        invocation.printer.show({"files": [one.as_json() for one in found]})
    for one in found:
        for line in one.lines():
            invocation.printer.say(line)
    if faults:
        error = faults[0].error
        assert error is not None  # noqa: S101 - for the type
        raise CommandError(
            error.what
            if len(faults) == 1
            else f"{len(faults)} of {len(found)} files are invalid: {error.what}",
            code=ExitCode.USAGE,
            expected=error.expected,
            found=error.found,
            remedy=error.remedy,
        )


def init(
    invocation: Invocation,
    model: ModelArgument,
    onnx: Annotated[Path, typer.Option("--onnx", help="The model's file.", exists=True, dir_okay=False)],
    into: Annotated[
        Path, typer.Option("--into", help="Folder for the release file; the project's is include/releases.")
    ] = Path("include/releases"),
    golden: Annotated[
        Path | None,
        typer.Option(
            "--golden", help="Where to write the golden set. Default: MODEL-golden.npz next to the model."
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            min=1,
            max=10_000,
            help="Rows in the golden set. Default: 32, or fewer if they are large.",
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="The kind of its answers. Default: the best match.")
    ] = None,
    output_name: Annotated[
        str | None,
        typer.Option("--output-name", help="The output with its answers. Default: the best match."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask no questions: take the best match.")] = False,
    run: Annotated[
        bool,
        typer.Option(
            "--run/--no-run",
            help="Run the model on made-up rows, in a separate process, to see what it answers.",
        ),
    ] = True,
    labels_from_model: Annotated[
        bool,
        typer.Option(
            "--labels-from-model", help="Use the model's own answers as labels, to try everything out."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Start with your own model: create a release file and a skeleton golden set from the model's signature.

    The command finds the kind of the answers from their shapes, operators and names, and from the model's answers to
    made-up rows. If that is uncertain, it asks you at a terminal; scripts give --kind, or get the best match. The
    release file passes `slipway lint`, and its comments say what you have to decide.

    The golden set has the right names, types and shapes. Replace its rows with held-out data and their true answers
    before the first release. Its labels are 0, which the accuracy gate refuses, or are omitted if the kind works
    without them. With --labels-from-model they are the model's own answers, to try everything out. Answers that fit no
    kind get a scorer in the release file's folder.
    """
    from slipway.cli.beginning.asking import Wanted, is_terminal
    from slipway.cli.beginning.begin import begin

    golden = golden or onnx.with_name(f"{model}-golden.npz")
    wanted = Wanted(kind, output_name, asks=not yes and output is Format.TABLE and is_terminal())
    begun = begin(
        model, onnx, into, golden, rows, force=force, from_model=labels_from_model, wanted=wanted, runs=run
    )
    if output is not Format.TABLE:
        invocation.printer.show(begun.as_json())
        return
    invocation.printer.say("\n".join(begun.lines()))


def verify(
    invocation: Invocation,
    model: ModelArgument,
    version: VersionArgument,
    bucket: Annotated[
        str, typer.Option("--bucket", help="The bucket, if the configuration names none.")
    ] = "",
    releases: Annotated[
        Path,
        typer.Option(
            "--releases",
            help="Folder of the release files; the model's file says which signature is required.",
        ),
    ] = Path("include/releases"),
    output: OutputOption = Format.TABLE,
) -> None:
    """Read every byte of a published version again, and say what differs from its manifest and signature.

    It reads the bucket, not Airflow. Credentials are the sandbox's, or those that boto3 finds (AWS_PROFILE, a role).
    Exit code: 0 unchanged since it was published; 1 changed.
    """
    from slipway.cli.checking.verifying import verify_published

    found = verify_published(invocation, model, version, bucket, releases)
    if output is not Format.TABLE:
        invocation.printer.show(found.as_json())
    for line in found.lines():
        invocation.printer.say(line)
    if found.findings:
        raise CommandError(
            f"{model} version {version} has changed since it was published",
            expected=f"{found.findings[0].key}: {found.findings[0].expected}",
            found=found.findings[0].found,
            remedy=f'slipway reject {model} {version} --reason "…", and find out who wrote to the bucket',
        )


def store_check(
    invocation: Invocation,
    bucket: Annotated[
        str, typer.Option("--bucket", help="The bucket, if the configuration names none.")
    ] = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Test whether the object store gives what locks and records rely on: conditions, listings and digests.

    Some servers and proxies accept If-None-Match and If-Match but ignore them. Slipway admits no release on such a
    store. The test writes small objects below operations/store-probe/ and removes them; it does not contact Airflow.
    Exit code: 0 the store gives all guarantees; 1 it does not.
    """
    from slipway.cli.checking.store_checking import check_store

    found = check_store(invocation, bucket)
    if output is not Format.TABLE:
        invocation.printer.show(found.as_json())
    for line in found.lines():
        invocation.printer.say(line)
    if found.broken:
        raise CommandError(
            f"the object store of the bucket {found.bucket!r} does not give the guarantees that releases require",
            expected=f"{found.broken[0].what}: {found.broken[0].expected}",
            found=found.broken[0].found,
            remedy="use a store that honors conditional requests, and no proxy in front of it that drops "
            "headers; docs/cluster.md lists the stores that were tested",
        )
