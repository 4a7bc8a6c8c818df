"""The real servers of the sandbox, each started from a wheel: Airflow, moto (S3 and SQS), Envoy, tritonserver.

A module here starts its server, configures it and asks how it is. None knows the cluster or KServe.
"""
