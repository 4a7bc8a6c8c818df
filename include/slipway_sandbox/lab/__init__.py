"""A laboratory for canaries: the serving half of a sandbox, models that err at will, and clients that never slow down.

Everything is real but the cluster: S3's protocol, Envoy, Tritons. There is no Airflow in it: whoever uses it drives
the InferenceService.
"""
