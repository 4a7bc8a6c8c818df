"""The transitions in KServe's Standard dialect, by `spec.canary[]` and HTTPRoutes: to the candidate, and back."""
