"""The sandbox: what stands in for S3, SQS, the cluster, KServe and the router on one machine."""
