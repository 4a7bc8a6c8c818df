"""DAGs to copy and to change."""
