import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Carries out the commands of ../go/transactions.go with the clients of Apache Kafka: Transactions BOOTSTRAP */
public class Transactions {
    private static final long CALL_MS = 30_000;
    private static final Duration POLL = Duration.ofMillis(200);
    private static final HexFormat HEX = HexFormat.of();

    private interface Call {
        void run();
    }

    /** The producer cannot continue. */
    private static class Lost extends RuntimeException {
        Lost(Throwable cause) {
            super(cause);
        }
    }

    private final String bootstrap;
    private final Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
    private KafkaProducer<byte[], byte[]> producer;
    private KafkaConsumer<byte[], byte[]> consumer;

    private Transactions(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        Transactions program = new Transactions(arguments[0]);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String answer;
            try {
                answer = program.carryOut(line.split(" "));
            } catch (Lost error) {
                answer = "lost " + text(error.getCause());
            } catch (KafkaException error) {
                answer = "abort " + text(error);
            }
            if (answer != null) {
                write(answer);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static String text(Throwable error) {
        return error.toString().replace('\n', ' ');
    }

    private static void write(String line) {
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
    }

    private String carryOut(String[] words) {
        switch (words[0]) {
            case "open" -> open(words);
            case "begin" -> lostUnlessDone(() -> producer.beginTransaction());
            case "send" -> {
                send(words[1], words[2], Integer.parseInt(words[3]), HEX.parseHex(words[4]));
                return null;
            }
            case "offset" -> offset(words[1], new TopicPartition(words[2], Integer.parseInt(words[3])),
                new OffsetAndMetadata(Long.parseLong(words[4])));
            case "commit" -> commit();
            case "abort" -> abort();
            case "poll" -> {
                return poll();
            }
            case "read" -> {
                return read(new TopicPartition(words[1], Integer.parseInt(words[2])), Integer.parseInt(words[3]));
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
        return "done";
    }

    private void open(String[] words) {
        if (producer != null) {
            producer.close(Duration.ZERO);
        }
        if (consumer != null) {
            consumer.close();
        }
        producer = new KafkaProducer<>(settings(
            "transactional.id", words[1], "transaction.timeout.ms", words[2], "linger.ms", 1, "retry.backoff.ms", 20,
            "max.block.ms", 5_000, "request.timeout.ms", 5_000, "delivery.timeout.ms", 20_000),
            new ByteArraySerializer(), new ByteArraySerializer());
        lostUnlessDone(() -> repeat(() -> producer.initTransactions()));
        positions.clear();
        if (words.length > 3) {
            consumer = new KafkaConsumer<>(settings(
                "group.id", words[3], "isolation.level", "read_committed", "enable.auto.commit", false,
                "auto.offset.reset", "earliest", "session.timeout.ms", 6_000, "heartbeat.interval.ms", 500,
                "default.api.timeout.ms", 10_000, "max.poll.records", 20),
                new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(List.of(words[4]));
        }
    }

    private Properties settings(Object... pairs) {
        Properties found = new Properties();
        found.put("bootstrap.servers", bootstrap);
        found.put("reconnect.backoff.max.ms", 200);
        for (int at = 0; at < pairs.length; at += 2) {
            found.put(pairs[at], pairs[at + 1]);
        }
        return found;
    }

    private void send(String number, String topic, int partition, byte[] value) {
        try {
            producer.send(new ProducerRecord<>(topic, partition, null, value), (sent, error) -> {
                if (error == null) {
                    write("stored " + number + " " + sent.offset());
                }
            });
        } catch (KafkaException | IllegalStateException error) {
            // The end of the transaction reports it again.
        }
    }

    private void offset(String group, TopicPartition partition, OffsetAndMetadata offset) {
        try (KafkaConsumer<byte[], byte[]> outside = new KafkaConsumer<>(settings("group.id", group),
                new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            repeat(() -> producer.sendOffsetsToTransaction(Map.of(partition, offset), outside.groupMetadata()));
        }
    }

    private void commit() {
        if (consumer != null) {
            repeat(() -> producer.sendOffsetsToTransaction(positions, consumer.groupMetadata()));
        }
        repeat(() -> producer.commitTransaction());
        positions.clear();
    }

    private void abort() {
        lostUnlessDone(() -> repeat(() -> producer.abortTransaction()));
        if (consumer != null) {
            positions.clear();
            lostUnlessDone(() -> repeat(this::returnToOffsets));
        }
    }

    private void returnToOffsets() {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        consumer.assignment().forEach(each -> {
            if (committed.get(each) == null) {
                consumer.seekToBeginning(List.of(each));
            } else {
                consumer.seek(each, committed.get(each).offset());
            }
        });
    }

    /** Repeats a call that was not answered in time. A KafkaException that it throws requires an abort. */
    private static void repeat(Call call) {
        long until = System.nanoTime() + CALL_MS * 1_000_000;
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException error) {
                if (System.nanoTime() > until) {
                    throw new Lost(error);
                }
            } catch (ApplicationRecoverableException | OutOfOrderSequenceException | AuthorizationException
                     | UnsupportedVersionException | IllegalStateException error) {
                throw new Lost(error);
            }
        }
    }

    private static void lostUnlessDone(Call call) {
        try {
            call.run();
        } catch (KafkaException | IllegalStateException error) {
            throw new Lost(error);
        }
    }

    private String poll() {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        lostUnlessDone(() -> consumer.poll(POLL).forEach(found::add));
        found.forEach(each -> positions.put(new TopicPartition(each.topic(), each.partition()),
            new OffsetAndMetadata(each.offset() + 1)));
        return records(found);
    }

    private String read(TopicPartition partition, int count) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> reader = new KafkaConsumer<>(settings("isolation.level", "read_committed"),
                new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            reader.assign(List.of(partition));
            reader.seekToBeginning(List.of(partition));
            long until = System.nanoTime() + CALL_MS * 1_000_000;
            while (found.size() < count && System.nanoTime() < until) {
                reader.poll(POLL).forEach(found::add);
            }
        }
        return records(found);
    }

    private static String records(List<ConsumerRecord<byte[], byte[]>> found) {
        StringBuilder line = new StringBuilder("records");
        found.forEach(each -> line.append(' ').append(each.topic()).append(':').append(each.partition()).append(':')
            .append(each.offset()).append(':').append(HEX.formatHex(each.value())));
        return line.toString();
    }
}
