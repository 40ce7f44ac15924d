import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A job of Flink's that writes the numbers below RECORDS to a topic with exactly-once delivery. It fails after each of
 * the first checkpoints, FAILURES times, and restarts from the last one.
 *
 *   Sink BOOTSTRAP TOPIC RECORDS FAILURES NAMING CHECKPOINT_DIRECTORY
 */
public class Sink {
    private static final AtomicInteger CHECKPOINTS = new AtomicInteger();
    private static final AtomicInteger FAILED = new AtomicInteger();
    private static final int PER_SECOND = 2_000;

    private static class Failing extends RichMapFunction<Long, String> implements CheckpointListener {
        private final int failures;
        private int since;

        Failing(int failures) {
            this.failures = failures;
        }

        @Override
        public String map(Long number) {
            since++;
            // There are records in the open transaction then.
            if (since > 100 && FAILED.get() < failures && CHECKPOINTS.get() > FAILED.get()) {
                FAILED.incrementAndGet();
                throw new IllegalStateException("as planned");
            }
            return number.toString();
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            since = 0;
            CHECKPOINTS.incrementAndGet();
        }
    }

    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("restart-strategy.type", "fixed-delay");
        settings.setString("restart-strategy.fixed-delay.attempts", arguments[3]);
        settings.setString("restart-strategy.fixed-delay.delay", "50 ms");
        settings.setString("execution.checkpointing.dir", "file://" + arguments[5]);
        settings.setString("execution.checkpointing.interval", "400 ms");
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
        DataGeneratorSource<Long> numbers = new DataGeneratorSource<>(
            number -> number, Long.parseLong(arguments[2]), RateLimiterStrategy.perSecond(PER_SECOND), Types.LONG);
        environment.fromSource(numbers, WatermarkStrategy.noWatermarks(), "numbers")
            .map(new Failing(Integer.parseInt(arguments[3])))
            .sinkTo(KafkaSink.<String>builder()
                .setBootstrapServers(arguments[0])
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix(arguments[1])
                .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(arguments[4]))
                .setProperty("transaction.timeout.ms", "60000")
                .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                    .setTopic(arguments[1]).setValueSerializationSchema(new SimpleStringSchema()).build())
                .build());
        environment.execute();
        System.out.println("failed " + FAILED.get());
        Runtime.getRuntime().halt(0);
    }
}
