"""The commands, by what a person wants: to look, to act, to begin and check. Each is thin; what it does is beside."""
