"""The tasks of `fleet_release` and `fleet_watch`: several Triton servers that take a version together."""
