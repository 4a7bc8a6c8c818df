"""What the judge of a canary weighs beside the tests on the same windows: earlier windows, single clumps."""
