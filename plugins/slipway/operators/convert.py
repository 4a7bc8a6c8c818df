"""Conversion: a pod turns what training left into what Triton serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from include.model_release.spec import Conversion
from slipway.operators.pod import ReleasePodOperator
from slipway.ticket import ReleaseTicket


class ConvertModelOperator(ReleasePodOperator):
    """Runs the release file's conversion in a pod and reads its parity report."""

    stage = "convert"

    def pod_spec(self, ticket: ReleaseTicket) -> Conversion:
        """The release file's ``conversion``."""
        return ticket.spec.conversion

    def arguments_for(self, ticket: ReleaseTicket) -> list[str]:
        """``convert_TARGET.py`` with the version's artefacts and what the target's options say."""
        conversion, source = ticket.spec.conversion, ticket.spec.source
        return [
            f"convert_{conversion.target}.py",
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
            *conversion.arguments(),
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
        return f"{ticket.work_prefix}result.json"

    def judge(self, ticket: ReleaseTicket, result: Mapping[str, Any]) -> None:
        """The converter has held the outputs against their tolerances; keeps what it measured as evidence."""
        self.store.write_json(f"{ticket.evidence_prefix}convert.json", result)
