"""The store of validation results that the context of great-expectations is given, by name.

Imported by the library alone, when a context is made: it imports the library, which takes seconds.
"""

from __future__ import annotations

import json

from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
from great_expectations.data_context.store.validation_results_store import ValidationResultsStore

from slipway.quality.plain import document


class PlainResultsStore(ValidationResultsStore):
    """Keeps results as JSON that has NumPy's values as JSON's.

    The library's own store cannot write what an expectation of quantiles answers: NumPy's truth values are no JSON.
    """

    def serialize(self, value: ExpectationSuiteValidationResult) -> str:
        """Return the JSON."""
        return json.dumps(document(value))
