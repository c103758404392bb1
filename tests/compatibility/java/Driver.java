import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Does with the stock Java client what stdin tells it, so that one JVM serves many tests.
 *
 * <p>A command is a line of fields separated by tabs; drivers.py has the other end and says what the fields mean. The answer is any
 * number of lines "= field...", then "done", or "failed", the name of the exception and its message. Bytes are base64, null is "-".
 */
public final class Driver {
    private static final long TIMEOUT_S = 20;
    private static final long PATIENCE_S = 35; // with a leader that dies
    private static final long PACE_MS = 5;
    private static final String NULL = "-";

    private final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private final String bootstrap;
    private final Admin admin;
    private final Members members = new Members();
    private final Transactions transactions = new Transactions();
    private TopicPartition place;
    private Producer<byte[], byte[]> stayingProducer;
    private Consumer<byte[], byte[]> stayingConsumer;

    private Driver(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", 10_000, "request.timeout.ms", 5_000));
    }

    public static void main(String[] arguments) throws Exception {
        Driver driver = new Driver(arguments[0]);
        driver.out.println("listening");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            List<String> fields = Arrays.asList(line.split("\t", -1));
            driver.answer(fields.get(0), fields.subList(1, fields.size()));
        }
        driver.admin.close(Duration.ofSeconds(5));
    }

    private void answer(String command, List<String> fields) {
        try {
            obey(command, fields);
            out.println("done");
        } catch (Exception failure) {
            Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
            String message = String.valueOf(cause.getMessage()).replaceAll("\\s+", " ");
            out.println("failed\t" + cause.getClass().getSimpleName() + "\t" + message);
        }
    }

    private void obey(String command, List<String> fields) throws Exception {
        if (command.startsWith("transact-")) {
            Map<String, Object> config = config(fields.get(fields.size() - 1));
            transactions.obey(command, fields, config).forEach(this::tell);
            return;
        }
        switch (command) {
            case "produce": produce(fields); break;
            case "consume": consume(fields); break;
            case "positions": positions(fields); break;
            case "stay": stay(fields.get(0)); break;
            case "send-on": sendOn(fields); break;
            case "read-on": readOn(fields.get(0)); break;
            case "join": join(fields); break;
            case "look": tell(members.look(fields.get(0))); break;
            case "leave": tell(members.leave(fields.get(0))); break;
            case "create": create(fields); break;
            case "topics": tell(admin.listTopics().names().get().stream().sorted().toArray()); break;
            case "describe": describe(fields.get(0)); break;
            case "delete": admin.deleteTopics(fields).all().get(); break;
            case "list-offsets": listOffsets(fields); break;
            case "cluster": cluster(); break;
            case "grow": grow(fields); break;
            case "settings": settings(fields); break;
            case "configure": configure(fields); break;
            case "delete-records": deleteRecords(fields); break;
            case "log-directories": logDirectories(fields.get(0)); break;
            case "producers": producers(fields); break;
            default: throw new IllegalArgumentException("unknown command " + command);
        }
    }

    // --- records ---------------------------------------------------------------------------------------------------------------------

    private void produce(List<String> fields) throws Exception {
        String topic = fields.get(0);
        Map<String, Object> config = config(fields.get(1));
        config.putIfAbsent("linger.ms", "50");
        config.putIfAbsent("delivery.timeout.ms", "15000");
        config.putIfAbsent("request.timeout.ms", "5000");
        try (Producer<byte[], byte[]> producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (String field : fields.subList(2, fields.size())) {
                sent.add(producer.send(recordToSend(topic, field.split(";", -1))));
            }
            producer.flush();
            for (Future<RecordMetadata> one : sent) {
                RecordMetadata where = one.get(TIMEOUT_S, TimeUnit.SECONDS);
                tell(where.partition(), where.hasOffset() ? where.offset() : -1, where.timestamp());
            }
        }
    }

    private static ProducerRecord<byte[], byte[]> recordToSend(String topic, String[] parts) {
        Headers headers = new RecordHeaders();
        for (String header : parts[4].isEmpty() ? new String[0] : parts[4].split(",")) {
            String[] pair = header.split(":", -1);
            headers.add(new String(bytes(pair[0]), StandardCharsets.UTF_8), bytes(pair[1]));
        }
        Integer partition = parts[0].equals(NULL) ? null : Integer.valueOf(parts[0]);
        return new ProducerRecord<>(topic, partition, Long.valueOf(parts[1]), bytes(parts[2]), bytes(parts[3]), headers);
    }

    private void consume(List<String> fields) throws Exception {
        TopicPartition partition = new TopicPartition(fields.get(0), Integer.parseInt(fields.get(1)));
        String where = fields.get(2);
        int wanted = Integer.parseInt(fields.get(3));
        try (Consumer<byte[], byte[]> consumer = consumer(fields.get(4))) {
            consumer.assign(List.of(partition));
            switch (where) {
                case "beginning": consumer.seekToBeginning(List.of(partition)); break;
                case "end": consumer.seekToEnd(List.of(partition)); break;
                default: consumer.seek(partition, Long.parseLong(where));
            }
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT_S);
            for (int got = 0; got < wanted; ) {
                if (System.nanoTime() > deadline) {
                    throw new TimeoutException(got + " of " + wanted + " records came");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    tell(record.offset(), record.timestamp(), record.timestampType(), text(record.key()), text(record.value()), text(record.headers()));
                    got++;
                }
            }
        }
    }

    private void positions(List<String> fields) {
        TopicPartition partition = new TopicPartition(fields.get(0), Integer.parseInt(fields.get(1)));
        try (Consumer<byte[], byte[]> consumer = consumer(fields.get(2))) {
            tell("beginning", consumer.beginningOffsets(List.of(partition)).get(partition), NULL);
            tell("end", consumer.endOffsets(List.of(partition)).get(partition), NULL);
            for (String time : fields.subList(3, fields.size())) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, Long.valueOf(time))).get(partition);
                tell(time, found == null ? NULL : found.offset(), found == null ? NULL : found.timestamp());
            }
        }
    }

    private Consumer<byte[], byte[]> consumer(String settings) {
        Map<String, Object> config = config(settings);
        config.putIfAbsent("enable.auto.commit", "false");
        config.putIfAbsent("default.api.timeout.ms", "10000");
        config.putIfAbsent("fetch.max.wait.ms", "50"); // closing waits for the fetch under way
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    // --- a producer and a consumer that stay, told nothing but where the brokers are ---------------------------------------------------

    private void stay(String topic) {
        place = new TopicPartition(topic, 0);
        stayingProducer = new KafkaProducer<>(config(""), new ByteArraySerializer(), new ByteArraySerializer());
        stayingConsumer = new KafkaConsumer<>(config("enable.auto.commit=false"), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        stayingConsumer.assign(List.of(place));
        stayingConsumer.seekToBeginning(List.of(place));
    }

    private void sendOn(List<String> fields) throws Exception {
        Map<Integer, Future<RecordMetadata>> sent = new TreeMap<>();
        for (int number = Integer.parseInt(fields.get(0)); number < Integer.parseInt(fields.get(1)); number++) {
            byte[] value = String.valueOf(number).getBytes(StandardCharsets.UTF_8);
            sent.put(number, stayingProducer.send(new ProducerRecord<>(place.topic(), place.partition(), null, value)));
            Thread.sleep(PACE_MS);
        }
        for (Map.Entry<Integer, Future<RecordMetadata>> one : sent.entrySet()) {
            tell(one.getValue().get(PATIENCE_S, TimeUnit.SECONDS).offset(), one.getKey());
        }
    }

    private void readOn(String end) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
        while (stayingConsumer.position(place) < Long.parseLong(end)) {
            if (System.nanoTime() > deadline) {
                throw new TimeoutException("read up to " + stayingConsumer.position(place) + " of " + end);
            }
            for (ConsumerRecord<byte[], byte[]> record : stayingConsumer.poll(Duration.ofMillis(500))) {
                tell(record.offset(), new String(record.value(), StandardCharsets.UTF_8));
            }
        }
    }

    // --- groups ----------------------------------------------------------------------------------------------------------------------

    private void join(List<String> fields) {
        members.join(fields.get(0), fields.get(1), config(fields.get(2)));
    }

    // --- administration --------------------------------------------------------------------------------------------------------------

    private void create(List<String> fields) throws Exception {
        String topic = fields.get(0);
        Map<String, String> configs = pairs(fields.get(2));
        NewTopic wanted = new NewTopic(topic, Optional.of(Integer.valueOf(fields.get(1))), Optional.empty()).configs(configs);
        var created = admin.createTopics(List.of(wanted));
        created.all().get();
        tell(created.numPartitions(topic).get(), created.replicationFactor(topic).get(), created.topicId(topic).get());
        for (ConfigEntry entry : created.config(topic).get().entries()) {
            if (configs.containsKey(entry.name())) {
                tell(entry.name(), entry.value(), entry.source());
            }
        }
    }

    private void describe(String topic) throws Exception {
        TopicDescription described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        for (TopicPartitionInfo partition : described.partitions()) {
            tell(partition.partition(), partition.leader().id(), ids(partition.replicas()), ids(partition.isr()), described.topicId());
        }
    }

    private void listOffsets(List<String> fields) throws Exception {
        TopicPartition partition = new TopicPartition(fields.get(0), Integer.parseInt(fields.get(1)));
        for (String what : fields.subList(2, fields.size())) {
            var found = admin.listOffsets(Map.of(partition, offsetSpec(what))).partitionResult(partition).get();
            tell(what, found.offset(), found.timestamp());
        }
    }

    private static OffsetSpec offsetSpec(String what) {
        switch (what) {
            case "earliest": return OffsetSpec.earliest();
            case "latest": return OffsetSpec.latest();
            case "max-timestamp": return OffsetSpec.maxTimestamp();
            default: return OffsetSpec.forTimestamp(Long.parseLong(what));
        }
    }

    private void cluster() throws Exception {
        DescribeClusterResult described = admin.describeCluster();
        tell("cluster", described.clusterId().get());
        tell("controller", described.controller().get().id());
        for (Node node : described.nodes().get()) {
            tell("broker", node.id(), node.host() + ":" + node.port());
        }
    }

    private void grow(List<String> fields) throws Exception {
        NewPartitions wanted = NewPartitions.increaseTo(Integer.parseInt(fields.get(1)));
        admin.createPartitions(Map.of(fields.get(0), wanted)).all().get();
    }

    private void settings(List<String> fields) throws Exception {
        ConfigResource resource = resource(fields.get(0), fields.get(1));
        Config described = admin.describeConfigs(Set.of(resource)).all().get().get(resource);
        for (ConfigEntry entry : described.entries()) {
            tell(entry.name(), entry.value() == null ? NULL : entry.value(), entry.source(), entry.isReadOnly(), entry.type());
        }
    }

    private void configure(List<String> fields) throws Exception {
        ConfigResource resource = resource(fields.get(0), fields.get(1));
        List<AlterConfigOp> operations = new ArrayList<>();
        for (String operation : fields.subList(2, fields.size())) {
            String[] parts = operation.split(" ", 2);
            String[] pair = parts[1].split("=", 2);
            ConfigEntry entry = new ConfigEntry(pair[0], pair.length == 2 ? pair[1] : null);
            operations.add(new AlterConfigOp(entry, AlterConfigOp.OpType.valueOf(parts[0])));
        }
        Map<ConfigResource, Collection<AlterConfigOp>> wanted = Map.of(resource, operations);
        admin.incrementalAlterConfigs(wanted).all().get();
    }

    private static ConfigResource resource(String type, String name) {
        return new ConfigResource(ConfigResource.Type.valueOf(type), name);
    }

    private void deleteRecords(List<String> fields) throws Exception {
        TopicPartition partition = new TopicPartition(fields.get(0), Integer.parseInt(fields.get(1)));
        RecordsToDelete before = RecordsToDelete.beforeOffset(Long.parseLong(fields.get(2)));
        tell(admin.deleteRecords(Map.of(partition, before)).lowWatermarks().get(partition).get().lowWatermark());
    }

    private void logDirectories(String topic) throws Exception {
        Map<Integer, Map<String, LogDirDescription>> described = admin.describeLogDirs(List.of(1)).allDescriptions().get();
        described.get(1).forEach((path, directory) -> new TreeMap<>(byName(directory.replicaInfos())).forEach((name, replica) -> {
            if (name.startsWith(topic + "-")) {
                tell(path, name, replica.size(), replica.offsetLag(), replica.isFuture());
            }
        }));
    }

    private static <V> Map<String, V> byName(Map<TopicPartition, V> partitions) {
        return partitions.entrySet().stream().collect(Collectors.toMap(entry -> entry.getKey().toString(), Map.Entry::getValue));
    }

    private void producers(List<String> fields) throws Exception {
        TopicPartition partition = new TopicPartition(fields.get(0), Integer.parseInt(fields.get(1)));
        for (ProducerState state : admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers()) {
            tell(state.producerId(), state.producerEpoch(), state.lastSequence(), state.lastTimestamp());
        }
    }

    // --- fields ----------------------------------------------------------------------------------------------------------------------

    private void tell(Object... fields) {
        out.println("= " + Arrays.stream(fields).map(String::valueOf).collect(Collectors.joining("\t")));
    }

    private Map<String, Object> config(String settings) {
        Map<String, Object> config = new HashMap<>(pairs(settings));
        config.put("bootstrap.servers", bootstrap);
        return config;
    }

    private static Map<String, String> pairs(String settings) {
        Map<String, String> pairs = new HashMap<>();
        for (String pair : settings.isEmpty() ? new String[0] : settings.split(" ")) {
            pairs.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
        }
        return pairs;
    }

    private static String ids(List<Node> nodes) {
        return nodes.stream().map(node -> String.valueOf(node.id())).collect(Collectors.joining(","));
    }

    private static byte[] bytes(String field) {
        return field.equals(NULL) ? null : Base64.getDecoder().decode(field);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? NULL : Base64.getEncoder().encodeToString(bytes);
    }

    private static String text(Headers headers) {
        List<String> pairs = new ArrayList<>();
        for (Header header : headers) {
            pairs.add(text(header.key().getBytes(StandardCharsets.UTF_8)) + ":" + text(header.value()));
        }
        return String.join(",", pairs);
    }
}
