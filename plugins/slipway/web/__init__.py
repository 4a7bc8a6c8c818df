"""Routes in Airflow's API server, below `/slipway`.

Airflow asks nobody who calls them: each route proves for itself who asks. A route starts runs; it decides nothing, and
believes nothing of what it was sent.
"""
