import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends records with the numbers from 0 on, and reads them as a member of a group, by the security settings of a file;
 * then writes the numbers that it has read, a line for each.
 *
 *   Login PROPERTIES TOPIC GROUP COUNT
 */
public class Login {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (var file = Files.newBufferedReader(Path.of(arguments[0]))) {
            settings.load(file);
        }
        settings.put("group.id", arguments[2]);
        settings.put("auto.offset.reset", "earliest");
        int count = Integer.parseInt(arguments[3]);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < count; number++) {
                producer.send(new ProducerRecord<>(arguments[1], String.valueOf(number)));
            }
            producer.flush();
        }
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(arguments[1]));
            for (int read = 0; read < count;) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.println(each.value());
                    read++;
                }
            }
        }
    }
}
