"""Conversion: a pod turns what training left into what Triton serves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from slipway.operators.base import ReleaseOperator, recorded_stage
from slipway.operators.pod import ReleasePodOperator
from slipway.pods.description import ReleasePod
from slipway.registry.reuse import already_published
from slipway.release_run import ReleaseRun
from slipway.training_configs import config_of_training
from slipway_core.errors import (
    GateRefusedError,
    InputMissingError,
    SlipwayError,
    TimedOutError,
    UserError,
)
from slipway_core.gates.parity import optimisation_in_words, parse_parity, require_parity
from slipway_core.publishing.conversion_result import converted_signature
from slipway_core.publishing.variants import (
    ONLY,
    Candidate,
    Choice,
    candidate_of,
    choose,
    variant_names,
)
from slipway_core.spec.conversion.conversion import Places
from slipway_core.triton_config.build import max_batch_size_of
from slipway_core.triton_config.ragged import batch_tensors_arguments
from slipway_rules.pod_files import RESULT_FILE

if TYPE_CHECKING:
    from airflow.sdk import Context


class ListVariantsOperator(ReleaseOperator):
    """Returns the names of the conversion's variants, over which `ConvertModelOperator` is mapped."""

    def run(self, context: Context) -> list[str]:
        """One empty name where there is just the one conversion."""
        return variant_names(self.release_run.spec)


class ConvertModelOperator(ReleasePodOperator):
    """Runs the release file's conversion in a pod and judges its parity table.

    Skipped where the version is published already from the same files in the same way: an engine differs by bytes
    from build to build, so what is published is what is released again.

    :param variant: which of its variants; empty where there is just the one. One of several that misses its
        tolerance, or cannot be made within its limits, is left out and fails nothing: `ChooseVariantOperator` sees
        what is left. A dependency that does not answer is tried again, and then fails.
    """

    def __init__(self, *, variant: str = ONLY, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.variant = variant

    @cached_property
    def release_run(self) -> ReleaseRun:
        """The release run, about this variant."""
        return ReleaseRun.parse(self.release).of_variant(self.variant)

    def describe(self, release_run: ReleaseRun) -> ReleasePod:
        """Return the converter's pod; each variant is a stage of the record, and its failure leaves it out."""
        return ReleasePod(
            kind="convert",
            stage=f"convert-{self.variant}" if self.variant else "convert",
            settings=release_run.spec.conversion,
            command=lambda: release_run.spec.conversion.command(_places(release_run, self._batch_tensors())),
            result_key=f"{release_run.work_prefix}{RESULT_FILE}",
            leaves_out=(GateRefusedError, UserError) if self.variant else (),
            needless=lambda: already_published(self.store, ReleaseRun.parse(self.release)),
        )

    def _batch_tensors(self) -> tuple[str, ...]:
        """Return what the converter gets of the tensors that Triton makes of a batch, by training's config.pbtxt."""
        release_run = self.release_run
        if release_run.spec.source.format != "onnx":
            return ()
        config = config_of_training(self.store, release_run.incoming_prefix)
        if config is None:
            return ()
        return batch_tensors_arguments(config, max_batch_size_of(release_run.spec.serving, config))

    def conclude(self, release_run: ReleaseRun, result: Mapping[str, Any]) -> None:
        """Keep the converter's result as evidence, whatever comes of it, then judge it.

        :raises UserError: the converter ran out of time; tried again it would do so again.
        """
        self.store.write_json(evidence_key(release_run), result)
        if result["error"] is not None:
            error = SlipwayError.from_dict(result["error"])
            if isinstance(error, TimedOutError):
                raise UserError(error.what, expected=error.expected, found=error.found, remedy=error.remedy)
        super().conclude(release_run, result)

    def judge(self, release_run: ReleaseRun, result: Mapping[str, Any]) -> None:
        """Requires that every output was compared and passes; the converter's own word is not enough.

        :raises ParityRefusedError: one does not, or none was compared.
        :raises ModelInvalidError: the converter reports the outputs or the comparison in an unexpected form.
        """
        conversion = release_run.spec.conversion
        if not conversion.compares:
            return
        summary = optimisation_in_words(result.get("optimisation"))
        if summary:
            self.log.info("%s; that is not part of the conversion's parity.", summary)
        try:
            answered = [tensor.name for tensor in converted_signature(result).outputs]
            require_parity(
                parse_parity(result.get("parity")),
                release_run.model,
                answered=answered,
                rules=getattr(conversion, "parity", None),
                precision=str(getattr(conversion, "precision", "fp32")),
            )
        except SlipwayError as error:
            refused = {**result, "outcome": "refused", "error": error.to_dict()}
            self.store.write_json(evidence_key(release_run), refused)
            raise


def _places(release_run: ReleaseRun, batch_tensors: tuple[str, ...]) -> Places:
    """Return where the converter finds its source and golden set, and where it leaves what it made."""

    def incoming(name: str) -> str:
        return release_run.uri(release_run.incoming_prefix + name)

    source = release_run.spec.source
    return Places(
        source=incoming(source.location),
        golden=incoming(source.golden_file),
        destination=release_run.uri(release_run.work_prefix),
        model=release_run.model,
        version=release_run.version,
        uri=incoming,
        golden_arguments=(*release_run.spec.golden.arguments(), *batch_tensors),
    )


def evidence_key(release_run: ReleaseRun) -> str:
    """Where the result of a conversion is kept: ``convert.json``, or one for each variant."""
    variant = f"-{release_run.variant}" if release_run.variant else ""
    return f"{release_run.evidence_prefix}convert{variant}.json"


class ChooseVariantOperator(ReleaseOperator):
    """Says which of the conversion's variants are published, by what their converters have measured.

    Skips itself, as the conversions do, where the version is published already.

    :return: their names, the leading one first.
    """

    def run(self, context: Context) -> list[str]:
        """Reads the evidence of each conversion; without variants there is nothing to choose."""
        release_run, names = self.release_run, variant_names(self.release_run.spec)
        needless = already_published(self.store, release_run)
        if needless is not None:
            raise AirflowSkipException(needless)
        found = {name: self._result(name) for name in names}
        if names == [ONLY]:
            return names
        with recorded_stage(self.record, "choose"):
            choice = self._choice(release_run, tuple(candidate_of(name, found[name]) for name in names))
            self.log.info(choice.reason)
            return list(choice.names)

    def _choice(self, release_run: ReleaseRun, candidates: tuple[Candidate, ...]) -> Choice:
        """What is chosen; what there was to choose from is kept as evidence also where nothing can be."""
        key = f"{release_run.evidence_prefix}variants.json"
        try:
            choice = choose(release_run.spec, candidates)
        except SlipwayError as error:
            self.store.write_json(key, Choice((), str(error), candidates).to_dict())
            raise
        self.store.write_json(key, choice.to_dict())
        return choice

    def _result(self, name: str) -> dict[str, Any]:
        key = evidence_key(self.release_run.of_variant(name))
        found: dict[str, Any] | None = self.store.read_json(key)
        if found is None:
            raise InputMissingError(
                f"the variant {name!r} has no result" if name else "the conversion has no result",
                expected=self.store.uri(key),
                found="none",
                remedy="clear its task in `prepare.convert` and run it again",
            )
        return found
