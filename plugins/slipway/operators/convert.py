"""Conversion: a pod turns what training left into what Triton serves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from include.model_release.errors import GateRefusedError, InputMissingError, ModelInvalidError
from include.model_release.spec import Conversion
from include.model_release.variants import ONLY, candidate_of, choose, variant_names
from slipway.operators.base import ReleaseOperator, recorded_stage
from slipway.operators.pod import ReleasePodOperator
from slipway.ticket import ReleaseTicket

if TYPE_CHECKING:
    from airflow.sdk import Context

RESULT_FILE = "result.json"


class ListVariantsOperator(ReleaseOperator):
    """Returns the names of the conversion's variants, over which `ConvertModelOperator` is mapped."""

    def run(self, context: Context) -> list[str]:
        """One empty name where there is just the one conversion."""
        return variant_names(self.ticket.spec)


class ConvertModelOperator(ReleasePodOperator):
    """Runs the release file's conversion in a pod and reads its parity report.

    :param variant: which of its variants; empty where there is just the one. One of several that misses its
        tolerance, or cannot be made, is left out and fails nothing: `ChooseVariantOperator` sees what is left.
    """

    def __init__(self, *, variant: str = ONLY, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.variant = variant
        # One stage of the record for each variant.
        self.stage = f"convert-{variant}" if variant else "convert"
        self.leaves_out = (GateRefusedError, ModelInvalidError) if variant else ()

    @cached_property
    def ticket(self) -> ReleaseTicket:
        """The release's ticket, about this variant."""
        return ReleaseTicket.parse(self.release).of_variant(self.variant)

    def pod_spec(self, ticket: ReleaseTicket) -> Conversion:
        """The release file's ``conversion``."""
        return ticket.spec.conversion

    def arguments_for(self, ticket: ReleaseTicket) -> list[str]:
        """The target's program with the version's artefacts and what the target's options say."""
        conversion, source = ticket.spec.conversion, ticket.spec.source
        return [
            conversion.program,
            *(
                ["--source", ticket.uri(ticket.incoming_prefix + source.location)]
                if conversion.has_source
                else []
            ),
            "--golden",
            ticket.uri(ticket.incoming_prefix + source.golden_file),
            "--destination",
            ticket.uri(ticket.work_prefix),
            *self._identity(ticket),
            *conversion.converter_arguments(lambda name: ticket.uri(ticket.incoming_prefix + name)),
            "--timeout-s",
            str(conversion.timeout_s),
        ]

    @staticmethod
    def _identity(ticket: ReleaseTicket) -> list[str]:
        """What a converter that lays out a whole repository must know of its place."""
        if not ticket.spec.conversion.lays_out_repository:
            return []
        return ["--model", ticket.model, "--version", str(ticket.version)]

    def result_key(self, ticket: ReleaseTicket) -> str:
        """The converter's result, beside the converted model."""
        return f"{ticket.work_prefix}{RESULT_FILE}"

    def judge(self, ticket: ReleaseTicket, result: Mapping[str, Any]) -> None:
        """The converter has held the outputs against their tolerances; keeps what it measured as evidence."""
        self.store.write_json(f"{ticket.evidence_prefix}{self.stage}.json", result)


class ChooseVariantOperator(ReleaseOperator):
    """Says which of the conversion's variants are published, by what their converters have measured.

    :return: their names, the leading one first.
    """

    def run(self, context: Context) -> list[str]:
        """Reads what each converter left; without variants there is nothing to choose."""
        ticket, names = self.ticket, variant_names(self.ticket.spec)
        if names == [ONLY]:
            return names
        with recorded_stage(self.record, "choose"):
            found = tuple(candidate_of(name, self._result(name)) for name in names)
            choice = choose(ticket.spec, found)
            self.store.write_json(f"{ticket.evidence_prefix}variants.json", choice.to_dict())
            self.log.info(choice.reason)
            return list(choice.names)

    def _result(self, name: str) -> dict[str, Any]:
        key = f"{self.ticket.of_variant(name).work_prefix}{RESULT_FILE}"
        found: dict[str, Any] | None = self.store.read_json(key)
        if found is None:
            raise InputMissingError(
                f"the variant {name!r} has left no result",
                expected=self.store.uri(key),
                found="none",
                remedy="clear its task in `prepare.convert` and run it again",
            )
        return found
