import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts the words of a topic by Kafka Streams with exactly_once_v2, by way of a repartition topic and into a store with
 * a changelog. Each count goes to the output. It runs until its standard input ends, or until it is killed.
 *
 *   ExactlyOnce BOOTSTRAP APPLICATION INPUT OUTPUT STATE_DIRECTORY
 */
public class ExactlyOnce {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.putAll(Map.of(
            "bootstrap.servers", arguments[0], "application.id", arguments[1], "state.dir", arguments[4],
            "default.key.serde", Serdes.StringSerde.class, "default.value.serde", Serdes.StringSerde.class,
            "processing.guarantee", "exactly_once_v2", "replication.factor", 3, "num.stream.threads", 2,
            // Every count is written, not only the last one of a commit.
            "statestore.cache.max.bytes", 0, "commit.interval.ms", 100));
        settings.putAll(Map.of(
            // Of a killed instance.
            "session.timeout.ms", 3000, "heartbeat.interval.ms", 300, "producer.transaction.timeout.ms", 3000));
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[2])
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
            .toStream().mapValues(String::valueOf).to(arguments[3], Produced.with(Serdes.String(), Serdes.String()));
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            streams.setStateListener((state, before) -> {
                if (state == KafkaStreams.State.ERROR) {
                    Runtime.getRuntime().halt(1);
                }
            });
            streams.start();
            while (System.in.read() >= 0) {
                Thread.onSpinWait();
            }
            streams.close(Duration.ofSeconds(30));
        }
        Runtime.getRuntime().halt(0);
    }
}
