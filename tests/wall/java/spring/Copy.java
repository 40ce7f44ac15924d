import java.util.Map;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.ProducerFactory;
import org.springframework.kafka.transaction.KafkaTransactionManager;

/** Copies one topic to another with a listener of Spring Kafka, exactly once: BOOTSTRAP SOURCE TARGET GROUP DIRECTORY. */
@Configuration(proxyBeanMethods = false)
@EnableKafka
public class Copy {
    public static void main(String[] given) throws Exception {
        System.setProperty("bootstrap", given[0]);
        System.setProperty("source", given[1]);
        System.setProperty("target", given[2]);
        System.setProperty("group", given[3]);
        var context = new AnnotationConfigApplicationContext(Copy.class);
        context.registerShutdownHook();
        Thread.currentThread().join();
    }

    @Bean
    ProducerFactory<String, String> producers() {
        var factory = new DefaultKafkaProducerFactory<String, String>(Map.of(
                ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, System.getProperty("bootstrap"),
                ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class,
                ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, StringSerializer.class));
        factory.setTransactionIdPrefix("spring-");
        return factory;
    }

    @Bean
    KafkaTemplate<String, String> template(ProducerFactory<String, String> producers) {
        return new KafkaTemplate<>(producers);
    }

    @Bean
    KafkaTransactionManager<String, String> transactions(ProducerFactory<String, String> producers) {
        return new KafkaTransactionManager<>(producers);
    }

    @Bean
    ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory(
            KafkaTransactionManager<String, String> transactions) {
        var factory = new ConcurrentKafkaListenerContainerFactory<String, String>();
        factory.setConsumerFactory(new DefaultKafkaConsumerFactory<>(Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, System.getProperty("bootstrap"),
                ConsumerConfig.GROUP_ID_CONFIG, System.getProperty("group"),
                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest",
                ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed",
                ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class,
                ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class)));
        factory.setConcurrency(2);
        factory.setBatchListener(true);
        factory.getContainerProperties().setKafkaAwareTransactionManager(transactions);
        return factory;
    }

    @Bean
    Copier copier(KafkaTemplate<String, String> template) {
        return new Copier(template);
    }

    /** One transaction for each batch that a poll returns. */
    public static class Copier {
        private final KafkaTemplate<String, String> template;

        Copier(KafkaTemplate<String, String> template) {
            this.template = template;
        }

        @KafkaListener(topics = "#{systemProperties['source']}")
        public void copy(java.util.List<ConsumerRecord<String, String>> records) {
            var sent = records.stream()
                    .map(each -> template.send(System.getProperty("target"), each.key(), "seen " + each.value()))
                    .toArray(CompletableFuture[]::new);
            CompletableFuture.allOf(sent).join();
        }
    }
}
