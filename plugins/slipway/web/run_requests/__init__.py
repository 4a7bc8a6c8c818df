"""What is added to Airflow's own answers about runs: a name for a run that nobody has named, and the notes of tasks.

It stands in front of every request to the API server: nothing in here may delay one, or fail one.
"""
