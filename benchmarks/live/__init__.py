"""Canaries under live traffic, for figures: a real router and real Tritons, and the code of a release, without Airflow.

They happen in the laboratory, `slipway_sandbox.lab`.
"""
