"""The guard: ends a canary whose lease ran out. No Airflow in it."""
