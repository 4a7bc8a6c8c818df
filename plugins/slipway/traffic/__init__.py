"""Who serves the users: the loop that reconciles an InferenceService, the watch of a canary's step, the lease holder.

The next action is decided in `slipway_core.rollout`, the verdict in `slipway_core.canary`. Nothing
here may raise a weight without `raise_permit`; what takes users back needs the cluster alone.
"""
