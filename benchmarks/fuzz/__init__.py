"""Hostile inputs to everything that is parsed."""

import sys
from pathlib import Path

# Pods have the package that they share on their path; nobody else has.
sys.path.append(str(Path(__file__).resolve().parents[2] / "include" / "pod_scripts"))
