"""The tasks of what is done after the release day."""
