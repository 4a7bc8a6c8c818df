"""An installation examined: what a release needs is tried, and each line says ok, or what is wrong and how to mend it.

An examination is one class in one file of `examinations/`. It reads unless a person, or the daily run, permits more;
what it cannot look at is unknown, never ok.
"""
