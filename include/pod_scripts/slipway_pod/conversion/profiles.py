"""Optimisation profiles of TensorRT: read from an argument, checked against the model, or made for its batch."""

from __future__ import annotations

import argparse
import json

from slipway_pod.errors import PodError
from slipway_pod.models.tensors import Signature

# One optimisation profile: the shape of each input under `min`, `opt` and `max`, batch first.
Profile = dict[str, dict[str, list[int]]]


def profile(text: str) -> Profile:
    """Return the profile in an argument, by place and then by input.

    Such as `{"x": {"min": [1, 4], "opt": [8, 4], "max": [16, 4]}}`.
    """
    wanted = '{"INPUT": {"min": [...], "opt": [...], "max": [...]}}'
    try:
        given = json.loads(text)
        found: Profile = {
            place: {name: [int(size) for size in shapes[place]] for name, shapes in given.items()}
            for place in ("min", "opt", "max")
        }
        known = all(set(shapes) == {"min", "opt", "max"} for shapes in given.values())
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise argparse.ArgumentTypeError(f"expected {wanted}, found {text}") from error
    if not given or not known:
        raise argparse.ArgumentTypeError(f"expected {wanted}, found {text}")
    for name in given:
        shapes = [found[place][name] for place in ("min", "opt", "max")]
        sizes = zip(*shapes, strict=False)
        if len({len(shape) for shape in shapes}) != 1 or any(not 0 < a <= b <= c for a, b, c in sizes):
            raise argparse.ArgumentTypeError(
                f"expected 0 < min <= opt <= max in each size of {name!r}, found {text}"
            )
    return found


def choose_profiles(options: argparse.Namespace, signature: Signature) -> list[Profile]:
    """Return the profiles that were given, checked; or one for a model of which only the batch varies."""
    varying = [tensor for tensor in signature.inputs if not tensor.shape or -1 in tensor.shape]
    for given in options.profile:
        require_profile_fits(given, signature)
    if options.profile or not varying:
        return list(options.profile)
    loose = [tensor.name for tensor in varying if not tensor.shape or -1 in tensor.shape[1:]]
    if loose:
        raise PodError(
            "ModelInvalidError",
            f"The input {loose[0]!r} varies in more than its batch",
            expected="an optimisation profile with its smallest, usual and largest shape",
            found=f"shape {next(list(t.shape) for t in varying if t.name == loose[0])}",
            remedy="write conversion.profiles in the release file",
        )
    sizes = {"min": 1, "opt": options.opt_batch_size or options.max_batch_size, "max": options.max_batch_size}
    return [
        {
            place: {
                tensor.name: [
                    size if index == 0 and fixed == -1 else fixed for index, fixed in enumerate(tensor.shape)
                ]
                for tensor in signature.inputs
                if tensor.shape
            }
            for place, size in sizes.items()
        }
    ]


def require_profile_fits(given: Profile, signature: Signature) -> None:
    """Raise PodError unless a profile names each input, with its rank and its fixed sizes."""
    known = {tensor.name: tensor for tensor in signature.inputs}
    problem = next((f"{name!r} is no input" for name in given["min"] if name not in known), None)
    problem = problem or next((f"{name!r} is left out" for name in known if name not in given["min"]), None)
    for name, tensor in known.items() if problem is None else ():
        for place in ("min", "opt", "max"):
            shape, wanted = given[place][name], tensor.shape or tuple([-1] * len(given[place][name]))
            if len(shape) != len(wanted) or any(b not in (-1, a) for a, b in zip(shape, wanted, strict=True)):
                problem = f"{place} of {name!r} is {shape}, the model takes {list(wanted)}"
    if problem is not None:
        raise PodError(
            "ModelInvalidError",
            "An optimisation profile does not fit the model",
            expected=f"shapes for {', '.join(known)}",
            found=problem,
            remedy="correct conversion.profiles in the release file",
        )
