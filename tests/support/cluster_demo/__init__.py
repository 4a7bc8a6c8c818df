"""`make cluster-demo`: the demo's story on a real cluster of one node.

image_archive   an image as an archive, written without a container engine
images          the images that the node is given
cluster         control plane, node, Knative, Kourier, KServe
counting        Prometheus, which the judge asks
tenancy         namespaces, accounts, rights, the way to S3, the release file
running         all of it with an Airflow
guarding        the guard's pod, and a canary that nobody drives
story           what is played
"""
