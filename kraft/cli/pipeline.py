"""`kraft pipeline`: logs into tables, tables into records, comparison of replicas."""

from kraft.cli.command import kraft
from kraft.cli.pipeline_audit import audit_command
from kraft.cli.pipeline_export import export_command
from kraft.cli.pipeline_ingest import ingest_command
from kraft.cli.pipeline_metadata import metadata_command
from kraft.cli.pipeline_report import report_command


@kraft.group("pipeline")
def pipeline() -> None:
    """Jobs over whole logs: on the processors of this machine, or on Spark with --master."""


pipeline.add_command(audit_command)
pipeline.add_command(export_command)
pipeline.add_command(ingest_command)
pipeline.add_command(metadata_command)
pipeline.add_command(report_command)
