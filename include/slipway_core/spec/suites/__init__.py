"""Expectations that a release file adds, as great-expectations writes them, and the files beside a release file."""
