import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Stock producers with a transactional id, each with a consumer whose offsets go along once it has joined a group. */
final class Transactions {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final Duration CLOSE = Duration.ofMillis(500);

    private final Map<String, Client> clients = new HashMap<>();

    /** Do what a command says; what there is to tell, a list of fields per line. */
    List<Object[]> obey(String command, List<String> fields, Map<String, Object> config) {
        String name = fields.get(0);
        if (command.equals("transact-open")) {
            clients.put(name, new Client(config));
            return List.of();
        }
        Client client = clients.get(name);
        switch (command) {
            case "transact-begin": client.begin(); break;
            case "transact-send": client.send(fields.get(1), Integer.parseInt(fields.get(2)), fields.get(3)); break;
            case "transact-flush": client.producer.flush(); break;
            case "transact-commit": client.producer.commitTransaction(); break;
            case "transact-abort": client.producer.abortTransaction(); break;
            case "transact-join": client.join(fields.get(1), config); break;
            case "transact-poll": return client.poll();
            case "transact-offsets": client.sendOffsets(); break;
            case "transact-rewind": client.rewind(); break;
            case "transact-close": clients.remove(name).close(); break;
            default: throw new IllegalArgumentException("unknown command " + command);
        }
        return List.of();
    }

    private static final class Client {
        private final Producer<String, String> producer;
        private final Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        private Consumer<String, String> consumer;
        private ConsumerGroupMetadata memberThen;

        Client(Map<String, Object> config) {
            producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
            try {
                producer.initTransactions();
            } catch (RuntimeException failure) {
                producer.close(CLOSE);
                throw failure;
            }
        }

        void begin() {
            producer.beginTransaction();
            memberThen = consumer == null ? null : consumer.groupMetadata();
        }

        void send(String topic, int partition, String value) {
            producer.send(new ProducerRecord<>(topic, partition, null, value));
        }

        void join(String topic, Map<String, Object> config) {
            config.putAll(Map.of("enable.auto.commit", "false", "auto.offset.reset", "earliest", "isolation.level", "read_committed"));
            consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(topic));
        }

        List<Object[]> poll() {
            List<Object[]> read = new ArrayList<>();
            for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                read.add(new Object[] {record.partition(), record.offset(), record.value()});
                positions.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            return read;
        }

        void sendOffsets() {
            producer.sendOffsetsToTransaction(new HashMap<>(positions), memberThen);
            positions.clear();
        }

        void rewind() {
            positions.clear();
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
            for (TopicPartition partition : consumer.assignment()) {
                OffsetAndMetadata found = committed.get(partition);
                consumer.seek(partition, found == null ? 0 : found.offset());
            }
        }

        void close() {
            producer.close(CLOSE);
            if (consumer != null) {
                consumer.close();
            }
        }
    }
}
