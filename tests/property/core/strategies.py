"""Arbitrary digests, shapes and hosts: small numbers of names, so that they meet."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from banyan.core.digest import Digest, Sums, ZoneCounts
from banyan.core.guest import GuestState
from banyan.core.resources import Amount, ResourceClass, Shape, shape
from banyan.core.time import Wall

CLASSES = tuple(ResourceClass(c) for c in ("vcpu", "memory_mib", "disk_gib", "custom_gpu", "a:b"))
TRAITS = ("HW_CPU_X86_AVX2", "STORAGE_DISK_SSD", "CUSTOM_GPU")

counts = st.integers(0, 2**40)
amounts = st.builds(Amount, counts, counts, counts)
shapes: st.SearchStrategy[Shape] = st.builds(
    shape,
    st.dictionaries(st.sampled_from(CLASSES), st.integers(1, 64), min_size=1, max_size=3),
    st.lists(st.sampled_from(TRAITS), max_size=2),
)
sums = st.builds(
    Sums,
    counts,
    counts,
    counts,
    st.dictionaries(st.sampled_from(CLASSES), amounts, max_size=2),
    st.dictionaries(st.sampled_from([str(s) for s in GuestState]), counts, max_size=2),
    st.dictionaries(st.builds(lambda s: s.key, shapes), counts, max_size=2),
    st.dictionaries(st.builds(lambda s: s.id, shapes), counts, max_size=2),
)
apart = sums.map(lambda s: replace(s, fits={}, counted={}))
# Whole milliseconds: what the flat form keeps.
instants = st.one_of(st.none(), st.integers(1, 4_102_444_800_000).map(lambda ms: Wall(ms / 1000)))
digests = st.builds(
    Digest, sums, apart, apart, st.builds(ZoneCounts, *[counts] * 7), counts, instants, instants, st.integers(0, 9)
)
