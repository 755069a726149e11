"""The wheel as a stranger gets it: presets inside, no checkout beside it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_wheel_brings_its_presets(tmp_path: Path) -> None:
    """A built wheel, unpacked away from the checkout, sizes a model preset and a workload."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = tmp_path.glob("*.whl")
    unpacked = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(unpacked)
    assert "kvtui/tui/kvtui.tcss" in names
    assert sum(name.startswith("kvtui/presets/models/") for name in names) == len(
        list((ROOT / "presets" / "models").glob("*.json"))
    )
    assert not [name for name in names if name.startswith(("tests/", "presets/"))]
    result = subprocess.run(
        [sys.executable, "-m", "kvtui", "size", "--model", "llama-3.1-8b", "--gpu", "h200",
         "--workload", "tutorial"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(unpacked)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )  # fmt: skip
    assert "2,147,483,648 B" in result.stdout
