"""Thin hooks: a connection comes in, typed values go out; every failure is one of `slipway_core.errors`."""
