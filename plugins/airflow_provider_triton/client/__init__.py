"""What `TritonHook` is made of: the connection's settings, the calls, their typed results, and the two protocols.

Nothing here knows Airflow's tasks.
"""
