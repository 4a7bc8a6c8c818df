"""`gate_mutation_score`: real models, each damaged in twenty ways, and how many of them the default gates catch."""
