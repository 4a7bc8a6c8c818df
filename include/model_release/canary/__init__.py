"""The judge of a canary: windows in, verdicts out, nothing else.

    judge = CanaryJudge(policy)
    verdict = judge.observe(window)

No clock, no metrics source and no cluster: who watches passes in what was seen.
`python -m include.model_release.canary` judges recorded windows again.
"""

from include.model_release.canary.judge import CanaryJudge
from include.model_release.canary.verdict import Verdict
from include.model_release.metrics.samples import Sample, Window
from include.model_release.spec.rollout.analysis import AnalysisPolicy

__all__ = ["AnalysisPolicy", "CanaryJudge", "Sample", "Verdict", "Window"]
