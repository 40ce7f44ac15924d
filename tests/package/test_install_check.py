"""The parts of `tests.package.install_check` that need no installation: sizes, and the layers of an image."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from tests.package import image_tree, install_check


def test_sizes_of_packages(tmp_path: Path) -> None:
    installed = tmp_path / "lib" / "python3.11" / "site-packages"
    for name, size in (("kraft/a.py", 10), ("kraft/__pycache__/a.cpython-311.pyc", 7), ("lz4/b.so", 20),
                       ("pip/c.py", 100), ("lz4-4.0.dist-info/METADATA", 3)):
        (installed / name).parent.mkdir(parents=True, exist_ok=True)
        (installed / name).write_bytes(bytes(size))
    assert install_check.sizes(tmp_path) == {"kraft": (10, 7), "lz4": (20, 0), "lz4-4.0.dist-info": (3, 0)}


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def layer(text: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        add(archive, "etc/kraft.properties", text.encode())
    return made.getvalue()


def test_layers_are_laid_over_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_tree, "WORK", tmp_path)
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        add(archive, "blobs/sha256/01", layer("lower"))
        add(archive, "blobs/sha256/02", layer("upper"))
        digests = [{"digest": "sha256:01"}, {"digest": "sha256:02"}]
        add(archive, "blobs/sha256/03", json.dumps({"layers": digests}).encode())
        add(archive, "index.json", json.dumps({"manifests": [{"digest": "sha256:03"}]}).encode())
    tree = image_tree.unpacked(tmp_path / "image.tar")
    assert (tree / "etc" / "kraft.properties").read_text() == "upper"
