"""The gates before the first user: parity, benchmark, validation, mirror comparison.

A gate reads what was measured and says pass or why not. Nothing here measures, and no gate knows another one.
"""
