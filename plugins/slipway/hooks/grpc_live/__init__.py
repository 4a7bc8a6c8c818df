"""The servers behind an InferenceService's address over gRPC, for models whose users ask by it."""
