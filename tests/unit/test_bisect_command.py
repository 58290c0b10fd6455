"""`bisect --kernels`: the order of installed kernels."""

import random
from pathlib import Path

import pytest

from replayer.commands import bisect


@pytest.mark.parametrize(
    "releases",
    [
        ["6.9.12", "6.12.0-rc1", "6.12.0-rc7", "6.12.0-rc10", "6.12.0", "6.12.1", "6.13.0-rc1"],
        ["6.11.10-amd64", "6.12~rc6-amd64", "6.12-amd64", "6.12.3-amd64"],
        ["6.12.0-061200rc7-generic", "6.12.0-061200-generic", "6.12.1-061201-generic"],
        ["6.11.4-301.fc41", "6.12.0-0.rc6.51.fc42", "6.12.0-0.rc7.59.fc42", "6.12.0-65.fc42"],
        ["6.1.0-9-amd64", "6.1.0-44-amd64", "6.1.0-marc1"],
    ],
    ids=["plain", "debian", "ubuntu", "fedora", "own-name"],
)
def test_a_pattern_stands_for_the_kernels_in_the_order_of_their_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, releases: list[str]
) -> None:
    """A release candidate is before its release, and an image for repairs is no candidate."""
    monkeypatch.setattr(bisect, "_BOOT", tmp_path)
    for release in [*random.Random(8).sample(releases, len(releases)), "0-rescue-8f1"]:
        (tmp_path / f"vmlinuz-{release}").touch()

    assert bisect._kernels("vmlinuz-*") == releases
