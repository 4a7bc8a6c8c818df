"""The asynchronous waits behind the deferrable operators."""
