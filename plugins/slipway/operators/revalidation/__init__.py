"""The tasks of `model_revalidation`, and the one that closes a finding. They change reports and findings alone."""
