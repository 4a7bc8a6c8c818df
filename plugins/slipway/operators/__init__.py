"""The steps of a release as Airflow operators. Each is safe to run again."""
