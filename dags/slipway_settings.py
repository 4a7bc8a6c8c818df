"""Slipway's environment variables, checked each time that Airflow reads the DAG files.

This file has no DAG. If a variable is invalid, reading this file fails, and Airflow's home page lists it among its
import errors. Every DAG keeps working in the meantime, with its default schedule and on the safe side.
"""

from __future__ import annotations

from slipway.deployment.settings import require_settings

require_settings()
