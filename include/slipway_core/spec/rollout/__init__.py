"""The release file's `rollout`: the canary, its analysis and its metrics, and what happens when.

Only options and limits; the judge is in `canary`, the transitions are in `rollout` of the domain.
"""
