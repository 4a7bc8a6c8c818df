"""What every program of a pod is: arguments, progress, limits, programs that it starts, and the result it leaves."""
