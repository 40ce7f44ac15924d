import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group. It acknowledges each record by the name that its value begins with: ACCEPT, RELEASE or
 * REJECT. RENEW renews the lock, and accepts when the next poll returns the record again. It prints the value and the delivery count of each record, and ends
 * after a number of accepted or rejected records, or without an end when that is 0.
 *
 *   ShareMember BOOTSTRAP GROUP TOPIC COUNT
 */
public class ShareMember {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("key.deserializer", StringDeserializer.class);
        settings.put("value.deserializer", StringDeserializer.class);
        int count = Integer.parseInt(arguments[3]);
        int done = 0;
        Set<String> renewed = new HashSet<>();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(arguments[2]));
            while (count == 0 || done < count) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(1));
                for (ConsumerRecord<String, String> record : records) {
                    int deliveries = record.deliveryCount().orElse((short) 0);
                    System.out.println(record.value() + " " + deliveries);
                    AcknowledgeType type = AcknowledgeType.valueOf(record.value().split("-")[0]);
                    if (type == AcknowledgeType.RELEASE && deliveries > 1) {
                        type = AcknowledgeType.ACCEPT;
                    }
                    if (type == AcknowledgeType.RENEW && !renewed.add(record.value())) {
                        type = AcknowledgeType.ACCEPT;
                    }
                    consumer.acknowledge(record, type);
                    if (type == AcknowledgeType.ACCEPT || type == AcknowledgeType.REJECT) {
                        done++;
                    }
                }
                commit(consumer);
            }
        }
    }

    private static void commit(KafkaShareConsumer<String, String> consumer) {
        consumer.commitSync().forEach((partition, error) -> error.ifPresent(each -> {
            System.out.println("ERROR " + each);
            Runtime.getRuntime().halt(1);
        }));
    }
}
