"""Pages of clients that push their metrics, and the text of the nodes' listeners that they come from."""

from kraft.cli.console import CommandSources
from kraft.client import Cluster
from kraft.client.configs import Change, Operation, alter_configs
from kraft.client.pushed_metrics import Pushed, histograms, parsed
from tests.cli.nodes import Started
from tests.console.browsers import browsing
from tests.console.reports import TEXT, Reports


def test_the_text_of_a_listener() -> None:
    instances, values = parsed(TEXT, "l")
    assert [(each.client_id, each.instance, each.pushed_seconds_ago, each.listener) for each in instances] == [
        ("a", "i-1", 0.0, "l"), ('b"<b>\\', "i-2", 2.5, "l")]
    assert (instances[0].transactional_id, instances[1].group) == ("tx", "g")
    assert values[0] == Pushed("i-1", "org.apache.kafka.producer.x.total", "topic=t", 7.0)
    assert parsed("") == ([], [])


def test_histograms_of_buckets() -> None:
    [found], others = histograms(parsed(TEXT)[1])
    assert (found.metric, found.attributes, found.total) == ("lat", "a=b", 100.0)
    assert [bound for bound, _ in found.buckets] == [0.5, 10.0, float("inf")]
    assert [found.quantile(share) for share in (0.5, 0.9, 0.95, 0.999)] == [0.5, 0.5, 10.0, float("inf")]
    assert [each.metric for each in others] == ["org.apache.kafka.producer.x.total", "odd.bucket"]
    assert found._replace(buckets=((1.0, 0.0),)).quantile(0.5) == 0.0


def test_the_pages(node: Started, cluster: Cluster) -> None:
    alter_configs(cluster, "client-metrics", "seen", [Change("metrics", Operation.SET, "org.apache.kafka.producer."),
                                                      Change("interval.ms", Operation.SET, "1000")])
    with browsing(node.bootstrap, sources=Reports()) as browser:
        listed = browser.get("/clients")
        assert "2 instances" in listed and "b&#34;&lt;b&gt;" in listed and 'href="/clients/i-1"' in listed
        assert "dead:1 does not answer: dead:1/metrics: refused" in listed
        assert ">seen</a>" in listed and "org.apache.kafka.producer.</td>" in listed and "1000 ms" in listed
        assert "1 instance<" in browser.get("/clients?q=rdkafka+::1")
        assert "None matches." in browser.get("/clients?q=nothing")
        one = browser.get("/clients/i-1")
        assert '<td class="code name">producer.x.total</td><td class="code">topic=t</td><td class="n">7</td>' in one
        assert '<td class="code name">lat</td>' in one and ">99 %</th>" in one
        assert "lat<" not in browser.get("/clients/i-1?q=producer")
        assert "There is no client instance" in browser.get("/clients/i-9", 404)


def test_without_listeners_the_page_says_what_is_needed(node: Started) -> None:
    with browsing(node.bootstrap) as browser:
        assert "--metrics HOST:PORT" in browser.get("/clients")


def test_a_listener_that_does_not_answer_is_named() -> None:
    found = CommandSources(["127.0.0.1:1", "ftp://x"]).client_reports()
    assert (found.listeners, list(found.instances), set(found.missing)) == (2, [], {"127.0.0.1:1", "ftp://x"})
