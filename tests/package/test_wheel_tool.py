"""`tools.wheel`: the sources that it copies, and the faults that it finds in a wheel."""

import json
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tools import wheel

GOOD = "kraft-1.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"


def test_only_sources_are_copied(tmp_path: Path) -> None:
    wheel.copy_sources(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(wheel.TOPS)
    assert list(tmp_path.rglob("*.so")) == []
    assert (tmp_path / "kraft_native" / "base" / "wire.pyx").exists()


def test_the_flags_of_a_build_hide_its_directory(tmp_path: Path) -> None:
    found = wheel.build_environment(sys.executable, tmp_path, tmp_path / "cache")
    assert f"-ffile-prefix-map={tmp_path}=." in found["CFLAGS"]
    assert "rpath" not in found["LDSHARED"]
    assert int(found["SOURCE_DATE_EPOCH"]) >= wheel.EPOCH_WITHOUT_HISTORY


def test_a_good_wheel_and_two_bad_ones(tmp_path: Path) -> None:
    good, local, large = tmp_path / GOOD, tmp_path / "kraft-1.0-cp311-cp311-linux_x86_64.whl", tmp_path / "large" / GOOD
    large.parent.mkdir()
    for path, count in ((good, 1), (local, 1), (large, wheel.WHEEL_BYTES_MAX + 1)):
        path.write_bytes(bytes(count))
    assert wheel.faults(good) == []
    assert wheel.faults(local) == ["it has no tag of a platform that several distributions share"]
    assert wheel.faults(large) == ["it has 6,000,001 bytes, more than 6,000,000"]


def test_differences_of_two_wheels(tmp_path: Path) -> None:
    for name, files in (("one", {"a": "1", "b": "1"}), ("other", {"a": "1", "b": "2", "c": "1"})):
        with ZipFile(tmp_path / name, "w") as archive:
            for each, text in files.items():
                archive.writestr(each, text)
    assert wheel.differences(tmp_path / "one", tmp_path / "other") == ["b", "c"]
    assert wheel.differences(tmp_path / "one", tmp_path / "one") == []


@pytest.mark.parametrize(("libraries", "symbols", "faults"), [
    ({"libssl.so.3": None, "libcrypto.so.3": None}, "manylinux_2_17_x86_64", []),
    ({"libz.so.1": None}, "manylinux_2_17_x86_64",
     ["it needs libz.so.1, which is neither in it nor left to the system"]),
    ({}, "manylinux_2_39_x86_64", ["its symbols need manylinux_2_39_x86_64, which is not in its name"]),
])
def test_what_auditwheel_finds(libraries: dict[str, None], symbols: str, faults: list[str],
                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel, "auditwheel", lambda *arguments: json.dumps({"external_libs": libraries,
                                                                           "sym_tag": symbols}))
    assert wheel.audited(Path(GOOD)) == faults


def test_a_refusal_of_auditwheel_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"auditwheel (show|none) fails"):
        wheel.auditwheel("none", tmp_path)
