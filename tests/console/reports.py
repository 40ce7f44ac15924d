"""Reports of two client instances as a node's listener for metrics writes them, with a histogram."""

from kraft.cli.console import CommandSources
from kraft.client.pushed_metrics import parsed
from kraft.console.sources import ClientReports

TEXT = r"""# HELP kraft_client_info x
kraft_client_info{instance="i-2",client_id="b\"<b>\\",software="j",version="4",address="::2",group="g"} 2.5
kraft_client_info{instance="i-1",client_id="a",software="rdkafka",address="::1",transactional_id="tx"} 0.04
kraft_client_metric{instance="i-1",client_id="a",metric="org.apache.kafka.producer.x.total",attributes="topic=t"} 7.0
kraft_client_metric{instance="i-1",client_id="a",metric="lat.bucket",attributes="a=b,le=0.5"} 90.0
kraft_client_metric{instance="i-1",client_id="a",metric="lat.bucket",attributes="a=b,le=+Inf"} 100.0
kraft_client_metric{instance="i-1",client_id="a",metric="lat.bucket",attributes="a=b,le=10"} 99.0
kraft_client_metric{instance="i-1",client_id="a",metric="odd.bucket",attributes="le=x"} 1.0
kraft_other{a="b"} 1.0
"""


class Reports(CommandSources):
    """Sources with these reports, and one listener that does not answer."""

    def client_reports(self) -> ClientReports:
        return ClientReports(*parsed(TEXT, "10.0.0.9:9404"), 2, {"dead:1": "dead:1/metrics: refused"})
