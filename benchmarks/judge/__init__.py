"""How often the canary's judge fails good candidates and finds bad ones: `make bench-judge`.

A seeded simulation. Each *cell* is a kind of traffic with a promise about it ("no difference, 5 requests/s:
failed in at most 1 %"); each of its runs is one canary, window after window as a user's would be, before the
real `CanaryJudge` with its default policy and before the rules of Flagger, Argo Rollouts and Kayenta.

    latency.py   distributions of latency and the buckets they are counted in
    traffic.py   a canary's windows, drawn at random
    cells.py     the cells and their goals
    wald.py      how many requests the best sequential test would need
    rules.py     what others' rules say of the same windows
    canary_run.py  one canary before all judges
    parallel.py  many canaries, on all cores
    timing.py    what a verdict costs
    summary.py   a cell's runs as rates with intervals, held against the goals
    table.py     the summary for a terminal, as Markdown, as JSON

Run `k` of a cell draws from a stream of its own, made of seed, cell and `k`: any cell can be run again alone,
with more runs or on other cores, and begins with the same canaries.
"""
