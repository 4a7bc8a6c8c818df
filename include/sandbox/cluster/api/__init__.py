"""The API server: addresses, verbs, watches and pods' logs, answered as the real one answers."""
