"""The faults that are planted: each says what it is, and still applies to the tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.teeth import PATCHES, ROOT, apply, read


def test_a_patch_without_its_header_is_refused(tmp_path: Path) -> None:
    patch = tmp_path / "x.patch"
    patch.write_text("--- a/x\n+++ b/x\n")
    with pytest.raises(ValueError, match=r"x\.patch: the first two lines"):
        read(patch)


@pytest.mark.parametrize("patch", sorted(PATCHES.glob("*.patch")), ids=lambda path: path.stem)
def test_a_fault_applies_and_names_tests_that_exist(patch: Path) -> None:
    fault = read(patch)
    assert apply(ROOT, fault, "--check") == ""
    assert fault.files
    assert all((ROOT / file).exists() for file in fault.files)
