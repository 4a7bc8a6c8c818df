#!/usr/bin/env python3
"""Checks an ensemble and its members as one unit and passes them through: a whole Triton model repository.

Every step must name a member, fit its tensors by name, datatype and shape, and leave nothing unused; no member may
be missing, empty, superfluous or in more than one version. No program is run: signatures are those of the
config.pbtxt files. Reads the repository (a folder or an archive) and the golden set from S3, writes the files as they
will lie in the published repository under DESTINATION/repository/ (the ensemble under the released model's name, all
in the released version), then `sbom.json` (the packages of this image) and, last, `result.json`, which is written
whatever happened, as long as S3 answers. Versions are pinned by whoever publishes it, from the configurations in the
result.

Exit codes: 0 done; 2 wrong usage; 3 the input is bad; 75 try again later (S3 does not answer, time is up);
1 an error in this program.
"""

from __future__ import annotations

import argparse
import ast
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway_pod.conversion.passthrough import Checked, pass_through, passthrough_parser
from slipway_pod.models.onnx_locale import use_portable_locale_in_file
from slipway_pod.models.tensors import Signature, Tensor
from slipway_pod.models.triton_files import (
    config_text,
    declared_tensors,
    files_below,
    invalid,
    move,
    read_config,
    read_program,
)
from slipway_pod.program.progress import say
from slipway_rules.ensembles import CALLED_BY_PARAMETER, called_models, load_order
from slipway_rules.errors import RuleError
from slipway_rules.version_manifest import CONFIG_FILE

# A parameter whose key ends so tells a program which model to call; what it names is a member, too.


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse and check the command line; exit with code 2 where it is wrong."""
    return passthrough_parser(__doc__, max_size_mib=8192.0).parse_args(argv)


def check(source: Path, repository: Path, options: argparse.Namespace) -> Checked:
    """Check what was fetched and lay out the repository."""
    folder = repository_folder(source)
    members = read_members(folder)
    top = find_top(members, options.model)
    require_unit(members, top)
    tensors = require_fitting_steps(members)
    say("check", f"{len(members)} models, {tensors} tensors between them fit")
    members[top].config.name = options.model
    for name, member in members.items():
        for file in (one for one in member.files if one.endswith(".onnx")):
            for change in use_portable_locale_in_file(folder / name / file, f"{name}/{file}"):
                say("locale", f"{name}: {change}")
        lay_out_member(member, folder / name, repository / member.config.name, options.version)
    configs = {member.config.name: config_text(member.config) for member in members.values()}
    inputs, outputs = members[top].inputs, members[top].outputs
    return Checked(configs, Signature(tuple(inputs.values()), tuple(outputs.values())))


def repository_folder(folder: Path) -> Path:
    """Return where the models' folders lie: `folder`, or the only folder in it, as archives are often packed."""
    inner = [path for path in folder.iterdir() if path.is_dir()]
    return inner[0] if len(inner) == 1 and not (inner[0] / CONFIG_FILE).exists() else folder


# ---------------------------------------------------------------- the members


@dataclass(frozen=True)
class Member:
    """One model of the repository. `files` are relative to its folder; `number` is its version's folder, if any."""

    name: str
    config: Any
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    files: tuple[str, ...]
    number: int | None

    @property
    def needed_inputs(self) -> set[str]:
        """Return the inputs without which it does not answer."""
        optional = {tensor.name for tensor in self.config.input if tensor.optional}
        return self.inputs.keys() - optional

    @property
    def is_ensemble(self) -> bool:
        """Return whether it only passes tensors between others."""
        return bool(self.config.HasField("ensemble_scheduling"))

    def calls(self, names: Collection[str]) -> list[str]:
        """Return the members that it calls: by its steps, or by name in its parameters."""
        steps = (step.model_name for step in self.config.ensemble_scheduling.step)
        parameters = ((key, value.string_value) for key, value in self.config.parameters.items())
        return called_models(steps, parameters, names)


def read_members(folder: Path) -> dict[str, Member]:
    """Return all models of a repository by name.

    :raises PodError: of kind ModelInvalidError.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if not names:
        raise invalid(
            "There is no model in the repository",
            expected=f"a folder for each model with its {CONFIG_FILE}",
            found=", ".join(sorted(path.name for path in folder.iterdir())) or "nothing",
            remedy="upload the repository as Triton reads it",
        )
    return {name: read_member(folder / name) for name in names}


def read_member(folder: Path) -> Member:
    """Return one model.

    :raises PodError: of kind ModelInvalidError, for what Triton, or a release, could not do with it.
    """
    config_name = f"{folder.name}/{CONFIG_FILE}"
    config = read_config(
        folder / CONFIG_FILE, config_name, "write it, or remove the folder if it isn't a model"
    )
    if config.name not in ("", folder.name):
        raise invalid(
            f"{config_name} is that of another model",
            expected=f'name: "{folder.name}", or none',
            found=f'name: "{config.name}"',
            remedy="name folder and model alike",
        )
    config.name = folder.name
    files = files_below(folder)
    numbers = sorted(
        {int(name.split("/")[0]) for name in files if name.split("/")[0].isdecimal() and "/" in name}
    )
    is_ensemble = config.HasField("ensemble_scheduling")
    if len(numbers) > 1 or (not numbers and not is_ensemble):
        raise invalid(
            f"{folder.name!r} has {len(numbers)} versions with files",
            expected="exactly one folder named by a number, since a release has one version of each member",
            found=", ".join(map(str, numbers)) or "no such folder with a file in it",
            remedy="leave the one that belongs to this ensemble",
        )
    member = Member(
        folder.name,
        config,
        {tensor.name: tensor for tensor in declared_tensors(config, "input", config_name)},
        {tensor.name: tensor for tensor in declared_tensors(config, "output", config_name)},
        tuple(name for name in files if name != CONFIG_FILE),
        numbers[0] if numbers else None,
    )
    for name in (name for name in member.files if name.endswith(".py")):
        require_calls_by_parameter(
            read_program(folder / name, f"{folder.name}/{name}"), f"{folder.name}/{name}"
        )
    return member


def require_calls_by_parameter(tree: ast.Module, name: str) -> None:
    """Raise PodError (ModelInvalidError) where a member's program calls a model by a name in its code."""
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        named = [word.value for word in node.keywords if word.arg == CALLED_BY_PARAMETER]
        if called == "InferenceRequest" and named and isinstance(named[0], ast.Constant):
            raise invalid(
                f"{name}, line {node.lineno}, calls a model by a name in its code",
                expected=f"a name that it takes from a parameter whose key ends in `{CALLED_BY_PARAMETER}`",
                found=repr(named[0].value),
                remedy="add the parameter to config.pbtxt: members have names of their own on each server",
            )


# ---------------------------------------------------------------- the unit


def find_top(members: Mapping[str, Member], model: str) -> str:
    """Return the ensemble that clients address: the one named `model`, or the only one that no other model calls."""
    called = {name for member in members.values() for name in member.calls(members)}
    tops = [name for name, member in members.items() if member.is_ensemble and name not in called]
    if model in members:
        tops = [model] if members[model].is_ensemble else []
    if len(tops) != 1:
        raise invalid(
            "It is not clear which model clients should call",
            expected=f"an ensemble named {model!r}, or exactly one that no other model calls",
            found=f"the ensembles {', '.join(tops)}" if tops else "none",
            remedy=f"name it {model!r}, folder and configuration",
        )
    return tops[0]


def require_unit(members: Mapping[str, Member], top: str) -> None:
    """Raise PodError unless `top` and all that it calls are exactly what is there, and nobody calls in a circle."""
    calls = {name: member.calls(members) for name, member in members.items()}
    try:
        reached = load_order(calls, [top])
    except RuleError as error:
        raise invalid(error.what, **error.details) from error
    idle = sorted(members.keys() - set(reached))
    if idle:
        raise invalid(
            f"{top!r} does not use all that is in the repository",
            expected="the ensemble and its members, nothing else",
            found=", ".join(idle),
            remedy="take these models out, or release them by themselves",
        )


def require_fitting_steps(members: Mapping[str, Member]) -> int:
    """Raise PodError, which lists the misfits, unless all tensors of all ensembles fit; return how many."""
    problems, count = [], 0
    for member in (member for member in members.values() if member.is_ensemble):
        tensors, found = flow_of(member, members)
        count += len(tensors)
        problems += [f"{member.name}: {text}" for text in [*found, *tensor_problems(tensors)]]
    if problems:
        more = f" and {len(problems) - 8} more" if len(problems) > 8 else ""
        raise invalid(
            "The steps do not fit the members",
            expected="each tensor written once, read at least once, of one datatype and of shapes that agree",
            found="; ".join(problems[:8]) + more,
            remedy="correct the maps, or the members' configurations",
        )
    return count


@dataclass
class Flow:
    """Who writes and who reads one tensor of an ensemble, each with the tensor as that side declares it."""

    writers: list[tuple[str, Tensor]] = field(default_factory=list)
    readers: list[tuple[str, Tensor]] = field(default_factory=list)


def flow_of(ensemble: Member, members: Mapping[str, Member]) -> tuple[dict[str, Flow], list[str]]:
    """Return the tensors of an ensemble by name, and in words what in its steps fits no member."""
    flows: defaultdict[str, Flow] = defaultdict(Flow)
    problems = []
    for name, tensor in ensemble.inputs.items():
        flows[name].writers.append(("the ensemble's input", tensor))
    for name, tensor in ensemble.outputs.items():
        flows[name].readers.append(("the ensemble's output", tensor))
    limit = ensemble.config.max_batch_size
    for position, step in enumerate(ensemble.config.ensemble_scheduling.step, 1):
        member, place = members[step.model_name], f"step {position} ({step.model_name})"
        problems += [f"{place} {text}" for text in step_problems(step, member, limit)]
        for inner, outer in step.input_map.items():
            if inner in member.inputs:
                flows[outer].readers.append((place, member.inputs[inner]))
        for inner, outer in step.output_map.items():
            if inner in member.outputs:
                flows[outer].writers.append((place, member.outputs[inner]))
    return dict(flows), problems


def step_problems(step: Any, member: Member, limit: int) -> list[str]:
    """Return what of a step fits not the member that it calls; `limit` is the ensemble's max_batch_size."""
    found = [
        f"maps the input {name!r}, which it lacks" for name in step.input_map if name not in member.inputs
    ]
    found += [
        f"leaves its input {name!r} without a tensor"
        for name in sorted(member.needed_inputs - set(step.input_map))
    ]
    found += [
        f"maps the output {name!r}, which it lacks" for name in step.output_map if name not in member.outputs
    ]
    if not step.output_map:
        found.append("gives no output")
    if step.model_version > 0 and member.number is not None and step.model_version != member.number:
        found.append(f"wants version {step.model_version}, but version {member.number} is there")
    if step.model_namespace:
        found.append("names a namespace, which a separate repository does not need")
    own = member.config.max_batch_size
    if 0 < own < limit:
        found.append(f"takes batches of {own}, the ensemble of {limit}")
    return found


def tensor_problems(flows: Mapping[str, Flow]) -> list[str]:
    """Return what is wrong with the tensors of an ensemble, in words."""
    found = []
    for name, flow in sorted(flows.items()):
        if not flow.writers:
            found.append(f"nothing writes {name!r}, which {flow.readers[0][0]} reads")
        elif len(flow.writers) > 1:
            found.append(f"{name!r} is written by {' and by '.join(place for place, _ in flow.writers)}")
        elif not flow.readers:
            found.append(f"nothing reads {name!r}, which {flow.writers[0][0]} gives")
        for writer, given in flow.writers[:1]:
            found += [
                f"{name!r} is {given} from {writer} and {taken} for {reader}"
                for reader, taken in flow.readers
                if not agree(given, taken)
            ]
    return found


def agree(one: Tensor, other: Tensor) -> bool:
    """Return whether two declarations of a tensor can be of the same one; -1 agrees with every size."""
    return (
        one.datatype == other.datatype
        and len(one.shape) == len(other.shape)
        and all(a == b or -1 in (a, b) for a, b in zip(one.shape, other.shape, strict=True))
    )


# ---------------------------------------------------------------- the repository


def lay_out_member(member: Member, source: Path, target: Path, version: int) -> None:
    """Move a member's files to where they lie in the published repository."""
    for name in member.files:
        first, _, rest = name.partition("/")
        is_versioned = rest and member.number is not None and first.isdecimal()
        move(source / name, target / (f"{version}/{rest}" if is_versioned else name))


def main(argv: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    return pass_through(arguments(argv), check)


if __name__ == "__main__":
    raise SystemExit(main())
