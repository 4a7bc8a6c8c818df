"""The targets of a conversion: a module for each."""
