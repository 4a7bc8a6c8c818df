"""The tasks of `model_tuning`: prepare the trials, search, confirm, propose. Nothing here changes a release file."""
