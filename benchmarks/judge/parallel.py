"""Many canaries of many cells on all cores, with progress shown. A module of its own: the processes import it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from rich.console import Console
from rich.progress import Progress

from benchmarks.judge.canary_run import Outcome, run_canary
from benchmarks.judge.cells import CELLS

CHUNK = 10

Task = tuple[str, range]


def run_cells(runs: Mapping[str, int], seed: int, jobs: int) -> dict[str, list[Outcome]]:
    """Run as many canaries of each cell as `runs` says, in `jobs` processes; return them by cell, in order.

    The result does not depend on `jobs`.
    """
    tasks: list[Task] = [
        (name, range(first, min(first + CHUNK, count)))
        for name, count in runs.items()
        for first in range(0, count, CHUNK)
    ]
    done: dict[Task, list[Outcome]] = {}
    left = dict(runs)
    console = Console(stderr=True)
    with Progress(console=console) as progress:
        bar = progress.add_task("canaries", total=sum(runs.values()))
        for task, outcomes in _run_tasks(tasks, seed, jobs):
            done[task] = outcomes
            left[task[0]] -= len(outcomes)
            progress.update(bar, advance=len(outcomes), description=task[0])
            if not console.is_terminal and not left[task[0]]:
                # A log shows no moving bar, so it gets a line a cell.
                console.print(f"{task[0]}: {runs[task[0]]} canaries done", highlight=False)
        progress.update(bar, description="canaries")
    return {name: [one for task in tasks if task[0] == name for one in done[task]] for name in runs}


def _run_tasks(tasks: Sequence[Task], seed: int, jobs: int) -> Iterator[tuple[Task, list[Outcome]]]:
    if jobs == 1:
        for task in tasks:
            yield task, _run_task(task, seed)
        return
    # Spawned, since a process with threads (the progress bar's) is not to be forked.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        pending = {pool.submit(_run_task, task, seed): task for task in tasks}
        try:
            for future in as_completed(pending):
                yield pending[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _run_task(task: Task, seed: int) -> list[Outcome]:
    name, numbers = task
    return [run_canary(CELLS[name], run, seed) for run in numbers]
