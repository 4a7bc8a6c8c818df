"""What the figures in docs/figures.md come from: `make bench`, or `python -m benchmarks --only NAME,…`.

Each figure is a module with a function `measure() -> Figure`; `figures.FIGURES` lists them by name. They are
measurements and not tests: nothing fails because a number is large, only because it could not be taken.
"""
