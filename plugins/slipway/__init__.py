"""Slipway's Airflow face: hooks, operators and triggers around the pure decisions of `slipway_core`."""
