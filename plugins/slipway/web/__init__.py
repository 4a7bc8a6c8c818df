"""The dashboard: routes in Airflow's API server, below `/slipway`.

Airflow asks nobody who calls a plugin's routes. So the application asks Airflow who it is before any route of pages or
of the JSON API begins (`app.routers`); the webhook proves by its signature who asks. A route shows what is known, or
asks Airflow to start a run as the person who is signed in. It decides nothing, and believes nothing that it was sent.
"""
