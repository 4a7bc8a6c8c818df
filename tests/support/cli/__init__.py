"""The command line, for its tests: documents to show, a server that has them, a clock that waits for nobody."""
