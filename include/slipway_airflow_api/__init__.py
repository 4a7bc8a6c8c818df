"""Airflow's REST API from outside: who signs in, what is asked, and the errors that it can end with.

The command line and the sandbox share it. No Airflow is imported; Airflow's own client library, which takes seconds to
import, only by `client`.
"""
