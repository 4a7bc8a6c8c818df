"""Canaries under live traffic, for figures: a real router and real Tritons, and the code of a release, without Airflow.

`include.sandbox.lab` is the world that they happen in.
"""
