"""The machine: settings and ports of one sandbox, its processes, images, progress, and the check before set-up.

Knows none of the services that run on it. `bootstrap` and `preflight` run before anything is installed.
"""
