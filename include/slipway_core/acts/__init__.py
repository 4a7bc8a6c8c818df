"""What a person may do, for the pages and the command line: the acts, what Airflow is asked for, what makes sense now.

It decides nothing about a release. The workflows ask again, and what they say counts.
"""
