"""The golden data is complete: every partition directory has expectations, and its files have the sizes they name."""

from tests.golden import golden, needs_golden, partitions


@needs_golden
def test_every_partition_has_expectations_and_files_of_the_named_sizes() -> None:
    directories = [entry for entry in golden("log", "data").iterdir() if entry.is_dir()]
    assert len(partitions()) == len(directories) > 30
    for partition in partitions():
        for name, facts in partition.files.items():
            assert (partition.directory / name).stat().st_size == facts["size"], (partition.name, name)
