"""The servers of an InferenceService: how users reach them, and how they differ from what the release file says."""
