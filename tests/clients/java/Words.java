import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/**
 * Counts the words of a topic by Kafka Streams, by way of a topic of its own and into a store with a changelog, until as
 * many are counted as are expected; then writes a line for each word, with its count, and ends.
 *
 *   Words BOOTSTRAP APPLICATION INPUT OUTPUT EXPECTED STATE_DIRECTORY PROTOCOL
 *
 * PROTOCOL is that of its group: classic or streams.
 */
public class Words {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.putAll(Map.of(
            "bootstrap.servers", arguments[0], "application.id", arguments[1], "state.dir", arguments[5],
            "default.key.serde", Serdes.StringSerde.class, "default.value.serde", Serdes.StringSerde.class,
            "replication.factor", 3, "num.stream.threads", 2, "commit.interval.ms", 100,
            "group.protocol", arguments[6]));
        if (arguments[6].equals("classic")) {
            // It does not leave its group when it is closed, so the next one waits for this time-out.
            settings.putAll(Map.of("session.timeout.ms", 6000, "heartbeat.interval.ms", 500));
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[2])
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
            .toStream().to(arguments[3], Produced.with(Serdes.String(), Serdes.Long()));
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            streams.start();
            Map<String, Long> counts = Map.of();
            while (counts.values().stream().mapToLong(Long::longValue).sum() < Long.parseLong(arguments[4])) {
                Thread.sleep(50);
                counts = counts(streams);
            }
            counts.forEach((word, count) -> System.out.println(word + " " + count));
        }
    }

    private static Map<String, Long> counts(KafkaStreams streams) {
        Map<String, Long> found = new TreeMap<>();
        try (KeyValueIterator<String, Long> all = streams.store(StoreQueryParameters.fromNameAndType(
                "counts", QueryableStoreTypes.<String, Long>keyValueStore())).all()) {
            while (all.hasNext()) {
                KeyValue<String, Long> each = all.next();
                found.put(each.key, each.value);
            }
        } catch (InvalidStateStoreException notYet) {
            return Map.of();
        }
        return found;
    }
}
