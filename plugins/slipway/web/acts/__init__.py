"""What a person does on a page: it is asked of Airflow's own REST API, inside of this process, as that person.

So Airflow checks the rights, names the person in the run and keeps its audit log, as where the person asks it directly.
Nothing here decides anything.
"""
