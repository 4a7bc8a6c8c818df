"""An InferenceService from what is observed to what is wanted: observation and goal in, one next action out.

Knows KServe's dialects, each in a folder of `dialects/`, and the canary's lease. The guard runs on it too: apart from
`inference_service`, which knows the release file, nothing here may import pydantic, scipy or any client.
"""
