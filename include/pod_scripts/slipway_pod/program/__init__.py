"""What every program of a pod has: arguments, progress, limits, subprograms, and the result that it writes.

Knows nothing of models.
"""
