"""Programs that run in pods: single files that import nothing of this project."""
