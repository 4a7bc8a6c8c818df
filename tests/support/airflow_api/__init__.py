"""Airflow's REST API, for tests of what asks it."""
