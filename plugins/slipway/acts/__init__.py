"""Acts of people carried out, for the dashboard and the command line alike: Airflow is asked, as the person who acts.

Nothing here decides anything: what makes sense is `slipway_core.acts`, who may is Airflow's.
"""
