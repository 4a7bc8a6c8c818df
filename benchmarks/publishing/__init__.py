"""How fast versions come into the registry, and how much memory that takes."""
