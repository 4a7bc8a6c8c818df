"""How the benchmark gate judges on a busy machine: versions that are as good as stable, and one that is slower."""
