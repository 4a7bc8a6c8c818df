"""Thin hooks: a connection comes in, typed values go out; every failure is one of `include.model_release.errors`."""
