"""The shapes of the objects that the emulator knows, as far as it looks into them.

Field names are those of Kubernetes' core/v1 and coordination.k8s.io/v1 and of KServe's serving.kserve.io/v1beta1.
Parts that nothing here reads (volumes, affinity, probes …) are known by name only, so that a misspelt name is
still noticed.
"""

from __future__ import annotations

from collections.abc import Mapping

from slipway_sandbox.cluster.admission.structure import (
    ANYTHING,
    ARRAY,
    BOOLEAN,
    INTEGER,
    INTEGER_OR_STRING,
    MICRO_TIME,
    OBJECT,
    STRING,
    ListOf,
    MapOf,
    Record,
    Scalar,
    Schema,
    without_bounds,
)

STRINGS = ListOf(STRING)
LABELS = MapOf(STRING)

METADATA = Record(
    {
        "name": STRING,
        "generateName": STRING,
        "namespace": STRING,
        "labels": LABELS,
        "annotations": LABELS,
        "finalizers": STRINGS,
        "ownerReferences": ListOf(OBJECT),
        "managedFields": ListOf(OBJECT),
        "uid": STRING,
        "resourceVersion": STRING,
        "generation": INTEGER,
        "creationTimestamp": STRING,
        "deletionTimestamp": STRING,
        "deletionGracePeriodSeconds": INTEGER,
        "selfLink": STRING,
    }
)

RESOURCE_REQUIREMENTS = Record(
    {"limits": MapOf(INTEGER_OR_STRING), "requests": MapOf(INTEGER_OR_STRING), "claims": ListOf(OBJECT)}
)
ENVIRONMENT = ListOf(
    Record(
        {
            "name": STRING,
            "value": STRING,
            "valueFrom": Record(
                {
                    "fieldRef": Record({"apiVersion": STRING, "fieldPath": STRING}, required=("fieldPath",)),
                    "configMapKeyRef": OBJECT,
                    "secretKeyRef": OBJECT,
                    "resourceFieldRef": OBJECT,
                    "fileKeyRef": OBJECT,
                }
            ),
        },
        required=("name",),
    )
)
TOLERATION = Record(
    {
        "key": STRING,
        "operator": Scalar("string", choices=("Exists", "Equal", "Lt", "Gt", "")),
        "value": STRING,
        "effect": Scalar("string", choices=("NoSchedule", "PreferNoSchedule", "NoExecute", "")),
        "tolerationSeconds": INTEGER,
    }
)

_CONTAINER_FIELDS: dict[str, Schema] = {
    "name": STRING,
    "image": STRING,
    "imagePullPolicy": Scalar("string", choices=("Always", "IfNotPresent", "Never", "")),
    "command": STRINGS,
    "args": STRINGS,
    "workingDir": STRING,
    "env": ENVIRONMENT,
    "envFrom": ListOf(OBJECT),
    "ports": ListOf(
        Record(
            {
                "name": STRING,
                "containerPort": Scalar("integer", minimum=1, maximum=65535),
                "protocol": STRING,
                "hostPort": INTEGER,
                "hostIP": STRING,
            },
            required=("containerPort",),
        )
    ),
    "resources": RESOURCE_REQUIREMENTS,
    "resizePolicy": ARRAY,
    "restartPolicy": STRING,
    "restartPolicyRules": ARRAY,
    "volumeMounts": ListOf(OBJECT),
    "volumeDevices": ListOf(OBJECT),
    "livenessProbe": OBJECT,
    "readinessProbe": OBJECT,
    "startupProbe": OBJECT,
    "lifecycle": OBJECT,
    "terminationMessagePath": STRING,
    "terminationMessagePolicy": Scalar("string", choices=("File", "FallbackToLogsOnError", "")),
    "securityContext": OBJECT,
    "stdin": BOOLEAN,
    "stdinOnce": BOOLEAN,
    "tty": BOOLEAN,
}
CONTAINER = Record(_CONTAINER_FIELDS, required=("name",))

_POD_SPEC_FIELDS: dict[str, Schema] = {
    "containers": ListOf(CONTAINER),
    "initContainers": ListOf(CONTAINER),
    "ephemeralContainers": ARRAY,
    "activeDeadlineSeconds": Scalar("integer", minimum=1),
    "terminationGracePeriodSeconds": Scalar("integer", minimum=0),
    "restartPolicy": STRING,
    "nodeName": STRING,
    "nodeSelector": LABELS,
    "tolerations": ListOf(TOLERATION),
    "serviceAccountName": STRING,
    "serviceAccount": STRING,
    "automountServiceAccountToken": BOOLEAN,
    "hostname": STRING,
    "hostnameOverride": STRING,
    "subdomain": STRING,
    "setHostnameAsFQDN": BOOLEAN,
    "hostNetwork": BOOLEAN,
    "hostPID": BOOLEAN,
    "hostIPC": BOOLEAN,
    "hostUsers": BOOLEAN,
    "hostAliases": ARRAY,
    "shareProcessNamespace": BOOLEAN,
    "priority": INTEGER,
    "priorityClassName": STRING,
    "preemptionPolicy": STRING,
    "schedulerName": STRING,
    "schedulingGates": ARRAY,
    "schedulingGroup": OBJECT,
    "runtimeClassName": STRING,
    "enableServiceLinks": BOOLEAN,
    "dnsPolicy": STRING,
    "dnsConfig": OBJECT,
    "imagePullSecrets": ARRAY,
    "affinity": OBJECT,
    "topologySpreadConstraints": ARRAY,
    "volumes": ListOf(OBJECT),
    "securityContext": OBJECT,
    "overhead": MapOf(INTEGER_OR_STRING),
    "os": OBJECT,
    "readinessGates": ARRAY,
    "resourceClaims": ARRAY,
    "resources": RESOURCE_REQUIREMENTS,
}
POD_SPEC = Record(_POD_SPEC_FIELDS, required=("containers",))
POD = Record(
    {"apiVersion": STRING, "kind": STRING, "metadata": METADATA, "spec": POD_SPEC, "status": OBJECT},
    required=("spec",),
)


def _unbounded(fields: Mapping[str, Schema]) -> dict[str, Schema]:
    return {key: without_bounds(one) for key, one in fields.items()}


# The ways to say what a predictor runs; KServe wants exactly one of them.
MODEL_FRAMEWORKS = (
    "sklearn",
    "xgboost",
    "tensorflow",
    "pytorch",
    "triton",
    "onnx",
    "huggingface",
    "pmml",
    "lightgbm",
    "paddle",
)
_MODEL_FIELDS: dict[str, Schema] = {
    **_unbounded(_CONTAINER_FIELDS),
    "storageUri": STRING,
    "storage": Record({"path": STRING, "key": STRING, "schemaPath": STRING, "parameters": LABELS}),
    "runtimeVersion": STRING,
    "protocolVersion": STRING,
}
MODEL = Record(
    {
        **_MODEL_FIELDS,
        "runtime": STRING,
        "modelFormat": Record({"name": STRING, "version": STRING}),
    }
)
COMPONENT_FIELDS: dict[str, Schema] = {
    "minReplicas": INTEGER,
    "maxReplicas": INTEGER,
    "scaleTarget": INTEGER,
    "scaleMetric": Scalar("string", choices=("cpu", "memory", "concurrency", "rps")),
    "scaleMetricType": STRING,
    "autoScaling": OBJECT,
    "containerConcurrency": INTEGER,
    "timeout": INTEGER,
    # KServe sets no bounds: 101 and -1 are stored.
    "canaryTrafficPercent": INTEGER,
    "logger": OBJECT,
    "batcher": OBJECT,
    "labels": LABELS,
    "annotations": LABELS,
    "deploymentStrategy": OBJECT,
    "storageUris": ListOf(OBJECT),
}
PREDICTOR = Record(
    {
        **_unbounded(_POD_SPEC_FIELDS),
        **COMPONENT_FIELDS,
        "name": Scalar("string", pattern="[a-z]([-a-z0-9]*[a-z0-9])?"),
        "model": MODEL,
        "workerSpec": OBJECT,
        **{framework: Record(_MODEL_FIELDS) for framework in MODEL_FRAMEWORKS},
    }
)
CANARY = Record({"trafficPercent": Scalar("integer", minimum=0, maximum=100), "predictor": PREDICTOR})
INFERENCE_SERVICE = Record(
    {
        "apiVersion": STRING,
        "kind": STRING,
        "metadata": METADATA,
        "spec": Record(
            {
                "predictor": PREDICTOR,
                "transformer": OBJECT,
                "explainer": OBJECT,
                "canary": ListOf(CANARY),
            }
        ),
        "status": OBJECT,
    }
)

EVENT = Record(
    {
        "apiVersion": STRING,
        "kind": STRING,
        "metadata": METADATA,
        "involvedObject": OBJECT,
        "reason": STRING,
        "message": STRING,
        "type": STRING,
        "count": INTEGER,
        "source": OBJECT,
        "firstTimestamp": STRING,
        "lastTimestamp": STRING,
        "eventTime": MICRO_TIME,
        "series": OBJECT,
        "action": STRING,
        "related": OBJECT,
        "reportingComponent": STRING,
        "reportingInstance": STRING,
    },
    required=("involvedObject",),
)
# Gateway API v1, gateway.networking.k8s.io.
HOSTNAME = Scalar("string", pattern=r"(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
GATEWAY_DURATION = Scalar("string", pattern="([0-9]{1,5}(h|m|s|ms)){1,4}")
BACKEND_REF = Record(
    {
        "group": STRING,
        "kind": STRING,
        "name": STRING,
        "namespace": STRING,
        "port": Scalar("integer", minimum=1, maximum=65535),
        "weight": Scalar("integer", minimum=0, maximum=1_000_000),
        "filters": ARRAY,
    },
    required=("name",),
)
HTTP_ROUTE = Record(
    {
        "apiVersion": STRING,
        "kind": STRING,
        "metadata": METADATA,
        "spec": Record(
            {
                "parentRefs": ListOf(OBJECT),
                "hostnames": ListOf(HOSTNAME, max_items=16),
                "rules": ListOf(
                    Record(
                        {
                            "name": STRING,
                            "matches": ListOf(OBJECT),
                            "filters": ARRAY,
                            "backendRefs": ListOf(BACKEND_REF, max_items=16),
                            "timeouts": Record(
                                {"request": GATEWAY_DURATION, "backendRequest": GATEWAY_DURATION}
                            ),
                            "retry": OBJECT,
                            "sessionPersistence": OBJECT,
                        }
                    )
                ),
            }
        ),
        "status": OBJECT,
    },
    required=("spec",),
)
# The emulator's controllers alone write it.
DEPLOYMENT = Record(
    {"apiVersion": STRING, "kind": STRING, "metadata": METADATA, "spec": OBJECT, "status": OBJECT},
    required=("spec",),
)
# Likewise.
REVISION = Record(
    {"apiVersion": STRING, "kind": STRING, "metadata": METADATA, "spec": OBJECT, "status": OBJECT}
)
# Knative Serving v1, serving.knative.dev: as much of it as the emulated KServe writes.
KNATIVE_SERVICE = Record(
    {
        "apiVersion": STRING,
        "kind": STRING,
        "metadata": METADATA,
        "spec": Record(
            {
                "template": OBJECT,
                "traffic": ListOf(
                    Record(
                        {
                            "revisionName": STRING,
                            "latestRevision": BOOLEAN,
                            "percent": INTEGER,
                            "tag": STRING,
                            "url": STRING,
                        }
                    )
                ),
            }
        ),
        "status": OBJECT,
    }
)
LEASE_SPEC = Record(
    {
        "holderIdentity": STRING,
        "leaseDurationSeconds": INTEGER,
        "acquireTime": MICRO_TIME,
        "renewTime": MICRO_TIME,
        "leaseTransitions": INTEGER,
        "strategy": STRING,
        "preferredHolder": STRING,
    }
)
LEASE = Record({"apiVersion": STRING, "kind": STRING, "metadata": METADATA, "spec": LEASE_SPEC})
CONFIG_MAP = Record(
    {
        "apiVersion": STRING,
        "kind": STRING,
        "metadata": METADATA,
        "data": LABELS,
        "binaryData": LABELS,
        "immutable": BOOLEAN,
    }
)
NAMESPACE = Record(
    {"apiVersion": STRING, "kind": STRING, "metadata": METADATA, "spec": OBJECT, "status": ANYTHING}
)
