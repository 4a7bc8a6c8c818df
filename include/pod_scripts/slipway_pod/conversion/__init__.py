"""The converters' frame and run: sources, precision, the reference that parity compares with, the finished model.

Only the programs `convert_*.py` use this package.
"""
