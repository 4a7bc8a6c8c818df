"""The kinds of answers: a module for each."""
