"""Contradictions inside a configuration, and between it and the model, its engines and its warm-up requests.

Each check returns what it found, with the field's place; none of them changes the configuration.
"""
