"""The judge of a canary: windows in, verdicts out, nothing else.

    judge = CanaryJudge(policy)
    verdict = judge.observe(window)

No clock, no metrics source and no cluster: who watches passes in what was seen.
`python -m slipway_core.canary` judges recorded windows again.
"""

from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.verdict import Verdict
from slipway_core.metrics.samples import Sample, Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy

__all__ = ["AnalysisPolicy", "CanaryJudge", "Sample", "Verdict", "Window"]
