"""The file system of a container image: the layers of an OCI archive, laid over each other."""

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any, Final

from tests.package.wheelhouse import WORK

# What a container's runtime provides, and the loopback interface.
MOUNTS: Final = """
mkdir -p {tree}/proc {tree}/dev
mount -t proc proc {tree}/proc
mount --rbind /dev {tree}/dev
python3 -c '{up}'
"""


def read_blob(archive: tarfile.TarFile, digest: str) -> Any:
    """Return the JSON document of a digest."""
    file = archive.extractfile(f"blobs/{digest.replace(':', '/')}")
    assert file is not None, digest
    return json.load(file)


def layers(archive: tarfile.TarFile) -> list[str]:
    """Return the digests of the only image's layers, the lowest first."""
    index = archive.extractfile("index.json")
    assert index is not None
    manifest, = json.load(index)["manifests"]
    return [each["digest"] for each in read_blob(archive, manifest["digest"])["layers"]]


def unpacked(path: Path) -> Path:
    """Return a directory with the image's files, their owners and their modes."""
    tree = WORK / "image"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    with tarfile.open(path) as archive:
        for digest in layers(archive):
            blob = archive.extractfile(f"blobs/{digest.replace(':', '/')}")
            with tarfile.open(fileobj=blob) as layer:
                layer.extractall(tree, numeric_owner=True, filter="fully_trusted")
    tree.chmod(0o755)
    return tree
