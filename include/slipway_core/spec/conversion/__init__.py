"""The release file's `source` and `conversion`: what training leaves, and what is made of it.

Only options, limits and the arguments that they become; what a converter made is read in `publishing`.
"""
