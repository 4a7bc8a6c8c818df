"""The last task of a tuning: what was found, as a report, a page, and a change of the release file to be reviewed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.operators.tuning.base import TuningStep
from slipway.run_note import tell_release
from slipway_core.identifiers import release_file
from slipway_core.tuning.choice import choose_best
from slipway_core.tuning.conclusion import Conclusion, conclude
from slipway_core.tuning.objective import Objective

if TYPE_CHECKING:
    from airflow.sdk import Context

    from slipway_core.tuning.change import ProposedChange
    from slipway_core.tuning.trials import TrialComparison

_TEXT = "text/plain; charset=utf-8"
# Of the release file's path: what a diff from the project's own folder calls it.
_PATH_PARTS = 3


class ProposeChangeOperator(TuningStep):
    """Concludes, and writes ``report.json``, ``tuning.html`` and, for a gain, ``proposal.diff`` and ``proposal.yaml``.

    It changes no release file.

    :param releases_dir: the folder with the release files.
    :returns: ``status``, ``summary`` and the key of the page.
    """

    def __init__(self, *, releases_dir: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.releases_dir = releases_dir

    def run(self, context: Context) -> dict[str, str]:
        """Conclude and write."""
        # Late: it draws, and reading the DAG files needs none of that.
        from slipway_core.reports.tuning.page import render_tuning_html
        from slipway_core.tuning.report import tuning_report

        plan, trials = self.plan, self.evidence.trials()
        best = choose_best(trials, Objective(plan.tuning, plan.slo), plan.present)
        found = (self.evidence.comparison(against) for against in ("defaults", "present"))
        comparisons: list[TrialComparison] = [
            one for one in found if one is not None and best is not None and one.candidate == best.setting
        ]
        conclusion = conclude(plan, best, comparisons)
        change = self._change(conclusion)
        report = tuning_report(plan, trials, comparisons, conclusion, change, datetime.now(UTC))
        prefix = self.evidence.prefix
        self.store.write_json(f"{prefix}report.json", report)
        page = render_tuning_html(report).encode()
        self.store.write(f"{prefix}tuning.html", page, content_type="text/html; charset=utf-8")
        self.log.info("%s: %s", conclusion.status, conclusion.summary)
        if change is not None:
            self.store.write(f"{prefix}proposal.yaml", change.text.encode(), content_type=_TEXT)
            self.store.write(f"{prefix}proposal.diff", change.diff.encode(), content_type=_TEXT)
            self.log.info("the change to review:\n%s", change.diff)
        tell_release(context, plan.model, plan.version, f"tuning: {conclusion.summary}")
        return {"status": conclusion.status, "summary": conclusion.summary, "page": f"{prefix}tuning.html"}

    def _change(self, conclusion: Conclusion) -> ProposedChange | None:
        """Return what is proposed; None: nothing, or the release file says it already."""
        from slipway_core.tuning.change import propose_change

        if conclusion.status != "improved" or conclusion.best is None:
            return None
        path = release_file(Path(self.releases_dir), self.plan.model)
        name = "/".join(path.absolute().parts[-_PATH_PARTS:])
        text = path.read_text(encoding="utf-8")
        change = propose_change(text, name, conclusion.best.setting, self.published_config)
        if not change.diff:
            self.log.info("%s already says so: release a version with it", name)
            return None
        return change
