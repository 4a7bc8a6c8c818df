"""Values that the chart refuses, and the words in which it says why."""

from __future__ import annotations

# What --set gives to the smallest values, and words of the refusal: by the schema.
BY_SCHEMA = {
    "a key of nobody's": ("gaurd.enabled=true", "gaurd"),
    "a key of nobody's within a part": ("guard.replicas=2", "replicas"),
    "a kind of guard that there is not": ("guard.kind=DaemonSet", "/guard/kind"),
    "a registry with a protocol": ("images.registry=https://registry.example.com", "/images/registry"),
    "a registry with a slash at its end": ("images.registry=registry.example.com/", "/images/registry"),
    "a Triton without a tag": ("images.triton=nvcr.io/nvidia/tritonserver", "/images/triton"),
    "a digest that is none": ("images.digests.guard=latest", "/images/digests/guard"),
    "a bucket that is none": ("bucket=s3://models", "/bucket"),
    "a team without a namespace of models": ("teams[0].podsNamespace=models", "servingNamespace"),
    "two staging servers": ("staging.replicas=2", "/staging/replicas"),
    "a mode that KServe does not have": ("kserve.modes={Serverless}", "/kserve/modes/0"),
    "a flag that the chart sets itself": ("triton.flags={--http-port=80}", "/triton/flags/0"),
    "no block of addresses": ("network.objectStore[0].cidr=s3.amazonaws.com", "/network/objectStore/0/cidr"),
    "a port that is none": ("network.gateway.ports={70000}", "/network/gateway/ports/0"),
}
# The same, by the templates: what a schema cannot say.
BY_TEMPLATES = {
    "no registry": ("images.registry=", "images.registry is required"),
    "no Triton": ("images.triton=", "images.triton is required"),
    "no bucket": ("bucket=", "bucket is required"),
    "two teams in one namespace": (
        "teams[0].podsNamespace=a,teams[0].servingNamespace=b,teams[1].podsNamespace=a,teams[1].servingNamespace=c",
        'teams: two teams have the podsNamespace "a"',
    ),
    "a quota where models are served": ("quota.enabled=true", "quota.enabled"),
    "a service account of no namespace": (
        "airflow.subjects[0].kind=ServiceAccount,airflow.subjects[0].name=a",
        "needs its namespace",
    ),
    "keys that nobody asks for": (
        "verify.enabled=true,verify.requireSignature=false,verify.publicKeys=key",
        "verify.publicKeys are given",
    ),
}
