"""Slipway's environment variables, checked each time that Airflow reads the DAG files.

There is no DAG here. Where a variable cannot be used, reading this file fails, and Airflow's home page names it
among its import errors. Every DAG keeps working meanwhile: with its default schedule, and on the safe side.
"""

from __future__ import annotations

from slipway.deployment.settings import require_settings

require_settings()
