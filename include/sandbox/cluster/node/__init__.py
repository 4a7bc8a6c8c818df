"""The node: pods as local processes, their containers, logs and images."""
