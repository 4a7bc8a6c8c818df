"""The report of a tuning as one HTML page, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from slipway_core.documents.document_form import format_errors
from slipway_core.reports.html_page import render_page
from slipway_core.reports.tuning.figure import pareto_svg


@format_errors("the report of the tuning")
def render_tuning_html(report: Mapping[str, Any]) -> str:
    """Return the page of what `tuning.report.tuning_report` makes.

    :raises UserError: for a document of another form.
    """
    # Drawn here of numbers and names of ours.
    picture = Markup(pareto_svg(report["picture"]))  # noqa: S704
    return render_page("tuning/page.html.j2", report=report, picture=picture)
