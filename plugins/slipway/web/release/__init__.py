"""The page of one release, which follows it while it is under way, and the inbox of what waits for a person.

They show what the read model and Airflow say, and decide nothing.
"""
