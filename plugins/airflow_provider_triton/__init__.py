"""Airflow and NVIDIA's Triton Inference Server: a connection type, a hook, triggers, and operators on model control.

A distribution of its own: it needs Airflow and Triton's client, and nothing of the project that it lies beside.
"""
