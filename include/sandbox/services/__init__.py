"""The real servers of the sandbox, each started from a wheel: Airflow, moto (S3 and SQS), Envoy, tritonserver."""
