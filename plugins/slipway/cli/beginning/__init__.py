"""A first release file and a skeleton of a golden set, made of a model's own signature."""
