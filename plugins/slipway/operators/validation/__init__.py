"""The parts of validation: asking both versions the golden set, and the suites of expectations that are run."""
