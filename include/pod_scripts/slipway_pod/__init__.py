"""What the programs beside this package share. It imports libraries only, and none of the programs."""
