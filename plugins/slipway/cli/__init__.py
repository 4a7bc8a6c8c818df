"""The command `slipway`: shows what the read model knows, and asks Airflow for what a person wants done.

Nothing here imports Airflow, and nothing here decides: pages and command show the same documents, and an act is a run
of the DAG that does it, under the name of who signed in.
"""
