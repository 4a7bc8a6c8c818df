"""Runs one scorer, in a separate process: `child.py GIVEN SCORER ROWS CONFIDENCE RESAMPLE_S FOLDER`.

Writes `scores.npz` and `figures.json` to FOLDER. What the scorer does wrong is the last line of what it prints.
Exit codes: 0 done; 3 the scorer is wrong; anything else: it ended the process.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from pathlib import Path
from types import ModuleType

from slipway_pod.scoring.scores import checked_scores, figures_of
from slipway_rules.npz import read_npz
from slipway_rules.scoring import GIVEN_LIMIT_BYTES, SCORES_FILE, Given

FIGURES = "figures.json"


def main(arguments: list[str]) -> int:
    """Score; return the exit code."""
    import numpy as np

    given_path, scorer_path, rows, confidence, resample_s, folder = arguments
    given = Given.of_arrays(read_npz(Path(given_path), given_path, GIVEN_LIMIT_BYTES))
    try:
        scorer = _loaded(Path(scorer_path))
        found = scorer.score(given.inputs, given.labels, given.answers, given.stable)
        scores = checked_scores(found, int(rows))
        figures = figures_of(scores, getattr(scorer, "figures", None), float(confidence), float(resample_s))
    except MemoryError:
        raise
    except Exception as error:  # it is the user's program
        traceback.print_exc()
        print(f"{type(error).__name__}: {error}".replace("\n", " ")[:500], flush=True)
        return 3
    np.savez_compressed(Path(folder, SCORES_FILE), **scores)  # type: ignore[arg-type, unused-ignore]
    Path(folder, FIGURES).write_text(json.dumps(figures, allow_nan=False))
    return 0


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("scorer", path)
    assert spec is not None  # noqa: S101  a path that ends with .py
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, "score", None)):
        raise AttributeError("the scorer has no function score(inputs, labels, answers, stable)")
    return module


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
