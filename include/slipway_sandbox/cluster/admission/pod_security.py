"""The restricted Pod Security Standard, checked as Kubernetes' own admission plugin checks it (`restricted:latest`).

The checks, their order and their words are those of k8s.io/pod-security-admission. A check of the weaker `baseline`
level that a stricter one covers (hostPath volumes, added capabilities, unconfined seccomp) has no words of its own.
What newer versions relax for pods in a user namespace (`hostUsers: false`) is not relaxed here, and the former
annotations for AppArmor are not read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway_sandbox.cluster.resources import KubeObject

Fields = Mapping[str, Any]

_VOLUMES = frozenset(
    [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ]
)
_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
_SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
_SECCOMP_TYPES = frozenset({"RuntimeDefault", "Localhost"})


@dataclass(frozen=True)
class Violation:
    """What a pod may not be, and where it is so: `host namespaces (hostPID=true)`."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


def violations(pod: KubeObject) -> list[Violation]:
    """Return all for which a namespace that enforces `restricted` would refuse the pod; empty: it is admitted."""
    return [found for check in _CHECKS if (found := check(pod)) is not None]


def _spec(pod: KubeObject) -> Fields:
    spec: Fields = pod["spec"]
    return spec


def _containers(pod: KubeObject) -> Iterator[tuple[str, Fields, Fields]]:
    """Return name, container and security context of each container, the kinds in the plugin's order."""
    spec = _spec(pod)
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            yield container.get("name", ""), container, container.get("securityContext") or {}


def _pod_context(pod: KubeObject) -> Fields:
    return _spec(pod).get("securityContext") or {}


def _named(names: Sequence[str]) -> str:
    """Return the containers in words: `container "base"`, or `containers "base", "side"`."""
    return f"container{'s' if len(names) > 1 else ''} {_quoted(names)}"


def _quoted(values: Sequence[str]) -> str:
    return ", ".join(json.dumps(value) for value in values)


def _contexts(pod: KubeObject, wrong: Callable[[Fields], bool]) -> str | None:
    """Return who sets what `wrong` finds in a security context: `pod and container "base"`; None if nobody does."""
    setters = ["pod"] if wrong(_pod_context(pod)) else []
    if names := [name for name, _, context in _containers(pod) if wrong(context)]:
        setters.append(_named(names))
    return " and ".join(setters) or None


# --- what `baseline` forbids ---


def _apparmor(pod: KubeObject) -> Violation | None:
    allowed, wrong = {None, "RuntimeDefault", "Localhost"}, set()

    def unconfined(context: Fields) -> bool:
        kind = (context.get("appArmorProfile") or {}).get("type")
        wrong.update({kind} - allowed)
        return kind not in allowed

    setters = _contexts(pod, unconfined)
    detail = f"{setters} must not set AppArmor profile type to {_quoted(sorted(wrong))}"
    return (
        Violation("forbidden AppArmor profile" + ("s" if len(wrong) > 1 else ""), detail) if setters else None
    )


def _host_namespaces(pod: KubeObject) -> Violation | None:
    found = [f"{key}=true" for key in ("hostIPC", "hostNetwork", "hostPID") if _spec(pod).get(key)]
    return Violation("host namespaces", ", ".join(found)) if found else None


def _host_ports(pod: KubeObject) -> Violation | None:
    found = {
        name: [str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")]
        for name, container, _ in _containers(pod)
    }
    names = [name for name, used in found.items() if used]
    ports = sorted({port for used in found.values() for port in used})
    if not names:
        return None
    use, noun = ("use" if len(names) > 1 else "uses"), ("hostPorts" if len(ports) > 1 else "hostPort")
    return Violation("hostPort", f"{_named(names)} {use} {noun} {', '.join(ports)}")


def _host_probes(pod: KubeObject) -> Violation | None:
    found: dict[str, set[str]] = {}
    for name, container, _ in _containers(pod):
        lifecycle = container.get("lifecycle") or {}
        handlers = [container.get(f"{kind}Probe") or {} for kind in ("liveness", "readiness", "startup")]
        handlers += [lifecycle.get(kind) or {} for kind in ("postStart", "preStop")]
        asked = [handler.get(way) or {} for handler in handlers for way in ("httpGet", "tcpSocket")]
        if hosts := {one["host"] for one in asked if one.get("host")}:
            found[name] = hosts
    if not found:
        return None
    names, hosts = sorted(found), sorted(set().union(*found.values()))
    use = "use" if len(names) > 1 else "uses"
    noun = "probe or lifecycle host" + ("s" if len(hosts) > 1 else "")
    return Violation("probe or lifecycle host", f"{_named(names)} {use} {noun} {_quoted(hosts)}")


def _privileged(pod: KubeObject) -> Violation | None:
    names = [name for name, _, context in _containers(pod) if context.get("privileged")]
    if not names:
        return None
    return Violation("privileged", f"{_named(names)} must not set securityContext.privileged=true")


def _proc_mount(pod: KubeObject) -> Violation | None:
    found = {name: context.get("procMount", "Default") for name, _, context in _containers(pod)}
    names = [name for name, kind in found.items() if kind != "Default"]
    kinds = sorted({found[name] for name in names})
    detail = f"{_named(names)} must not set securityContext.procMount to {_quoted(kinds)}"
    return Violation("procMount", detail) if names else None


def _selinux(pod: KubeObject) -> Violation | None:
    data: set[str] = set()

    def wrong(context: Fields) -> bool:
        options = context.get("seLinuxOptions") or {}
        found = {f"{key} may not be set" for key in ("user", "role") if options.get(key)}
        if options.get("type", "") not in _SELINUX_TYPES:
            found.add(f"type {_quoted([options['type']])}")
        data.update(found)
        return bool(found)

    setters = _contexts(pod, wrong)
    detail = f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(sorted(data))}"
    return Violation("seLinuxOptions", detail) if setters else None


def _sysctls(pod: KubeObject) -> Violation | None:
    names = [one.get("name", "") for one in _pod_context(pod).get("sysctls") or ()]
    forbidden = [name for name in names if name not in _SYSCTLS]
    return Violation("forbidden sysctls", ", ".join(forbidden)) if forbidden else None


def _windows_host_process(pod: KubeObject) -> Violation | None:
    setters = _contexts(pod, lambda one: bool((one.get("windowsOptions") or {}).get("hostProcess")))
    detail = f"{setters} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", detail) if setters else None


# --- what `restricted` asks for beyond that ---


def _privilege_escalation(pod: KubeObject) -> Violation | None:
    names = [
        name for name, _, context in _containers(pod) if context.get("allowPrivilegeEscalation") is not False
    ]
    detail = f"{_named(names)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail) if names else None


def _capabilities(pod: KubeObject) -> Violation | None:
    keeping, adding, added = [], [], set()
    for name, _, context in _containers(pod):
        capabilities = context.get("capabilities") or {}
        if "ALL" not in (capabilities.get("drop") or ()):
            keeping.append(name)
        if more := set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}:
            adding.append(name)
            added |= more
    details = []
    if keeping:
        details.append(f'{_named(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        wrong = _quoted(sorted(added))
        details.append(f"{_named(adding)} must not include {wrong} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _volume_types(pod: KubeObject) -> Violation | None:
    names = sorted(one.get("name", "") for one in _spec(pod).get("volumes") or () if not _VOLUMES & set(one))
    listed = " ".join(json.dumps(name) for name in names)
    return (
        Violation("restricted volume types", f"volumes [{listed}] have restricted types") if names else None
    )


def _non_root(pod: KubeObject) -> Violation | None:
    reason = "runAsNonRoot != true"
    if setters := _contexts(pod, lambda context: context.get("runAsNonRoot") is False):
        return Violation(reason, f"{setters} must not set securityContext.runAsNonRoot=false")
    if _pod_context(pod).get("runAsNonRoot"):
        return None
    names = [name for name, _, context in _containers(pod) if not context.get("runAsNonRoot")]
    detail = f"pod or {_named(names)} must set securityContext.runAsNonRoot=true"
    return Violation(reason, detail) if names else None


def _user(pod: KubeObject) -> Violation | None:
    setters = _contexts(pod, lambda context: context.get("runAsUser") == 0)
    return Violation("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def _seccomp(pod: KubeObject) -> Violation | None:
    def profile(context: Fields) -> Any:
        return (context.get("seccompProfile") or {}).get("type")

    found = [profile(context) for context in (_pod_context(pod), *(one for *_, one in _containers(pod)))]
    wrong = sorted({kind for kind in found if kind is not None} - _SECCOMP_TYPES)
    if setters := _contexts(pod, lambda context: profile(context) in wrong):
        detail = f"{setters} must not set securityContext.seccompProfile.type to {_quoted(wrong)}"
        return Violation("seccompProfile", detail)
    if found[0] is not None:
        return None
    names = [name for name, _, context in _containers(pod) if profile(context) is None]
    wanted = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {_named(names)} {wanted}") if names else None


_CHECKS: Sequence[Callable[[KubeObject], Violation | None]] = (
    _apparmor,
    _host_namespaces,
    _host_ports,
    _host_probes,
    _privileged,
    _proc_mount,
    _selinux,
    _sysctls,
    _windows_host_process,
    _privilege_escalation,
    _capabilities,
    _volume_types,
    _non_root,
    _user,
    _seccomp,
)
