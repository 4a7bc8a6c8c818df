"""A model's file and the configuration beside it, checked before anything is uploaded."""
