"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# How long one example takes says how busy the machine is, nothing about the code.
settings.register_profile("slipway", deadline=None)
settings.load_profile("slipway")
