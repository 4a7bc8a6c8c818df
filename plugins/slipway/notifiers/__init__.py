"""How people are notified: an Airflow notifier over Apprise (Slack, Teams, e-mail, PagerDuty) and signed webhooks.

The libraries are imported when something is sent: DAG files import this package. No address, password or key is ever
written into a message, a log or an error; texts of the libraries are not passed on before these are cut out of them.
"""
