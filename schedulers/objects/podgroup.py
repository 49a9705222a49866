"""PodGroups of Kubernetes' own Workload API: pods that their owner wants started together.

Source: KEP-4671; `scheduling.k8s.io`, PodGroup v1alpha2 (Kubernetes 1.36), v1alpha3 and v1beta1 (1.37), off by default.
"""

from __future__ import annotations

from typing import Final

import msgspec

from schedulers.objects.meta import Stored

#: Where an API server may serve PodGroups, newest version first; the fields below are the same in all.
PATHS: Final = tuple(f"/apis/scheduling.k8s.io/{version}/podgroups" for version in ("v1beta1", "v1alpha3", "v1alpha2"))


class Gang(msgspec.Struct, gc=False):
    """All or nothing: so many pods start together."""

    minCount: int = 1


class GroupPolicy(msgspec.Struct, gc=False):
    """Either `gang`, or `basic`: each pod by itself."""

    gang: Gang | None = None


class PodGroupSpec(msgspec.Struct, gc=False):
    """The spec of a PodGroup."""

    schedulingPolicy: GroupPolicy = msgspec.field(default_factory=GroupPolicy)


class PodGroup(Stored):
    """A PodGroup."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)

    @property
    def gang_size(self) -> int:
        """Number of pods that start together; 1 where each pod starts by itself."""
        gang = self.spec.schedulingPolicy.gang
        return gang.minCount if gang is not None else 1
