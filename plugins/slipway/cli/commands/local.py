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
    """Check release files: each fault with its line, and for an unknown key the nearest one.

    A note says what the metrics source of the canary does not see.

    With --model also whether the model, the release file's `serving` and the config.pbtxt beside it fit each other
    and what servers load; with --golden whether the model can be asked that golden set, before any upload.
    The tensors of an ONNX file are read with the library onnx (the extra `init`), those of other formats are not.
    Exit code: 0 all are well; 2 one is not.
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
            else f"{len(faults)} of {len(found)} files cannot be used: {error.what}",
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
    """Begin a model of your own: a release file and a skeleton of its golden set, from the model's own signature.

    What kind of answers they are is read from the shapes, the operators and the names, and from what the model answers
    to made-up rows. Where that is not sure, a person at a terminal is asked; scripts say --kind, or get the kind that
    fits best. The release file passes `slipway lint`, and its comments say what to decide.

    The golden set has the right names, types and shapes; put held-out data and their true answers in it before the
    first release. Its labels are 0, which the accuracy gate refuses, or not there where the kind can do without;
    --labels-from-model makes them the model's own answers, to try everything out. Answers that no kind knows get a
    scorer beside the release file.
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
        typer.Option("--releases", help="The release files; the model's names the required signature."),
    ] = Path("include/releases"),
    output: OutputOption = Format.TABLE,
) -> None:
    """Read a published version again, every byte, and say what differs from its manifest and its signature.

    It reads the bucket, not Airflow; credentials are the sandbox's, else those that boto3 finds (AWS_PROFILE, a role).
    Exit code: 0 it is unchanged since it was published; 1 it is not.
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
    """Ask the object store whether it keeps what locks and records rely on: conditions, listings, digests.

    A server, or a proxy before it, may take If-None-Match and If-Match and not look at them; a release is not admitted
    there. It writes small objects below operations/store-probe/ and removes them, and asks no Airflow. Exit code: 0 the
    store keeps it; 1 it does not.
    """
    from slipway.cli.checking.store_checking import check_store

    found = check_store(invocation, bucket)
    if output is not Format.TABLE:
        invocation.printer.show(found.as_json())
    for line in found.lines():
        invocation.printer.say(line)
    if found.broken:
        raise CommandError(
            f"the object store of the bucket {found.bucket!r} does not give the guarantees that releases need",
            expected=f"{found.broken[0].what}: {found.broken[0].expected}",
            found=found.broken[0].found,
            remedy="use a store that keeps conditions, without a proxy before it that drops headers: "
            "docs/cluster.md lists those that were tried",
        )
