"""The pods of a release: what they are, the common parts of their manifests, their execution by Airflow's
`KubernetesPodOperator`, and why one without a result failed.

Reading the DAG files imports `description` alone: the Kubernetes clients come with the rest.
"""
