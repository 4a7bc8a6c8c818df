"""The transitions in KServe's Knative dialect: forward to the candidate, and back."""
