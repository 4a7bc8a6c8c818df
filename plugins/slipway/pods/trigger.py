"""Waiting for a release's pod in the triggerer."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.providers.cncf.kubernetes.triggers.pod import KubernetesPodTrigger

from slipway.pods.starting import AsyncReleasePodManager


class ReleasePodTrigger(KubernetesPodTrigger):
    """The provider's, with the wait of releases for the start of their pods."""

    @classmethod
    def like(cls, trigger: KubernetesPodTrigger) -> ReleasePodTrigger:
        """Return this trigger in place of the provider's."""
        return cls(**trigger.serialize()[1])

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer needs to make this trigger again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", super().serialize()[1]

    @cached_property
    def pod_manager(self) -> AsyncReleasePodManager:
        """What reads the pod, and waits for its start."""
        return AsyncReleasePodManager(async_hook=self.hook)
