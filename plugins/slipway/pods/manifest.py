"""The parts of a release pod's manifest that its program does not decide: rights, disk, variables, labels.

They keep to the restricted Pod Security Standard, and the root file system is read-only besides. What a pod may write
to is one volume at /tmp, which goes with the pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubernetes.client import models as k8s

if TYPE_CHECKING:
    from slipway.pods.description import ReleasePod
    from slipway.release_run import ReleaseRun
    from slipway_core.spec.pods.settings import PodSettings, SecretKey

# By which a NetworkPolicy finds the pods of one kind (include/manifests/network/): convert, smoke-test, score, …
STAGE_LABEL = "slipway.dev/stage"
PART_OF_LABEL, PART_OF = "app.kubernetes.io/part-of", "slipway"
# Tells the pod of a later measurement from those before it.
ATTEMPT_LABEL = "slipway.dev/attempt"
# The images' own user. Said here too: NVIDIA's base images run as root.
USER_ID = 10001
_SHARED_MEMORY, _SCRATCH = "shared-memory", "scratch"
_SHM_FOLDER = "/dev/shm"  # noqa: S108 - the pod's, not this process's
_SCRATCH_FOLDER = "/tmp"  # noqa: S108 - the pod's, not this process's


def pod_security() -> k8s.V1PodSecurityContext:
    """Return the pod's security context: an ordinary user, who owns the volumes, and the runtime's seccomp filter."""
    return k8s.V1PodSecurityContext(
        run_as_non_root=True,
        run_as_user=USER_ID,
        run_as_group=USER_ID,
        fs_group=USER_ID,
        seccomp_profile=k8s.V1SeccompProfile(type="RuntimeDefault"),
    )


def container_security() -> k8s.V1SecurityContext:
    """Return the container's security context: no further rights, no capability, a read-only root file system."""
    return k8s.V1SecurityContext(
        allow_privilege_escalation=False,
        read_only_root_filesystem=True,
        capabilities=k8s.V1Capabilities(drop=["ALL"]),
    )


def volumes(spec: PodSettings) -> list[tuple[k8s.V1Volume, k8s.V1VolumeMount]]:
    """Space for temporary files on the node's disk, and shared memory, which the kubelet counts as the pod's memory."""
    wanted = (
        (_SCRATCH, _SCRATCH_FOLDER, None, spec.scratch_limit),
        (_SHARED_MEMORY, _SHM_FOLDER, "Memory", spec.shm_size),
    )
    return [
        (
            k8s.V1Volume(name=name, empty_dir=k8s.V1EmptyDirVolumeSource(medium=medium, size_limit=size)),
            k8s.V1VolumeMount(name=name, mount_path=folder),
        )
        for name, folder, medium, size in wanted
        if size is not None
    ]


def variables(spec: PodSettings) -> list[k8s.V1EnvVar]:
    """Return where files may be written, and what comes from secrets.

    HOME too: libraries keep their caches there, and the image's own is read-only.
    """
    folders = [k8s.V1EnvVar(name=name, value=_SCRATCH_FOLDER) for name in ("TMPDIR", "HOME")]
    return [*folders, *(_from_secret(name, found) for name, found in spec.secret_env.items())]


def _from_secret(name: str, found: SecretKey) -> k8s.V1EnvVar:
    """Return a variable that the kubelet fills in, so that its value is in no manifest and no log."""
    reference = k8s.V1SecretKeySelector(name=found.secret, key=found.key)
    return k8s.V1EnvVar(name=name, value_from=k8s.V1EnvVarSource(secret_key_ref=reference))


def labels_of(pod: ReleasePod, release_run: ReleaseRun) -> dict[str, str]:
    """Return the labels by which people, Services and NetworkPolicies find the pod."""
    later = {ATTEMPT_LABEL: str(pod.attempt)} if pod.attempt > 1 else {}
    return {
        PART_OF_LABEL: PART_OF,
        STAGE_LABEL: pod.kind,
        "slipway.dev/model": release_run.model,
        "slipway.dev/version": str(release_run.version),
        **pod.labels,
        **later,
    }
