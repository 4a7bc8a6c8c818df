"""The mind of a release: pure functions and values, no Airflow, no network, no clock of its own."""
