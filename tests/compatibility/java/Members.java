import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Stock consumers that are members of groups: each polls in a thread of its own, and commits what it has read. */
final class Members {
    private static final long LEAVE_MS = 20_000;
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration COMMIT = Duration.ofSeconds(10);

    private final Map<String, Member> members = new ConcurrentHashMap<>();

    /** Start a member. How it reads is said by its settings. */
    void join(String name, String topic, Map<String, Object> config) {
        config.putIfAbsent("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        Member member = new Member(topic, new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer()));
        members.put(name, member);
        member.start();
    }

    /** What a member owns at present, how often it was told so, and all it has read, as fields. */
    Object[] look(String name) {
        return members.get(name).look();
    }

    /** Close a member and wait until it is gone; what there was to see of it at last. */
    Object[] leave(String name) throws InterruptedException, TimeoutException {
        return members.remove(name).leave();
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final String topic;
        private final Consumer<String, String> consumer;
        private final TreeSet<Integer> owned = new TreeSet<>();
        private final Map<Integer, List<String>> read = new TreeMap<>();
        private int rebalances;
        private boolean isCommitted = true;
        private RuntimeException failure;
        private volatile boolean isLeaving;

        Member(String topic, Consumer<String, String> consumer) {
            this.topic = topic;
            this.consumer = consumer;
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                consumer.subscribe(List.of(topic), this);
                while (!isLeaving) {
                    readOn();
                }
            } catch (RuntimeException raised) {
                failed(raised);
            } finally {
                close();
            }
        }

        private void readOn() {
            List<ConsumerRecord<String, String>> found = new ArrayList<>();
            consumer.poll(POLL).forEach(found::add);
            synchronized (this) {
                found.forEach(record -> read.computeIfAbsent(record.partition(), index -> new ArrayList<>()).add(record.value()));
            }
            if (!found.isEmpty() || !isCommitted) {
                isCommitted = hasCommitted();
            }
        }

        private boolean hasCommitted() {
            try {
                consumer.commitSync(COMMIT);
                return true;
            } catch (CommitFailedException | RetriableException unsettled) {
                return false; // The group settles anew, or has another coordinator. What is still its own is committed with the next poll.
            }
        }

        @SuppressWarnings("deprecation") // what replaces it in 4.x is not in 3.x
        private void close() {
            try {
                consumer.close(Duration.ofMillis(LEAVE_MS / 2));
            } catch (RuntimeException raised) {
                failed(raised);
            }
        }

        synchronized Object[] look() {
            if (failure != null) {
                throw failure;
            }
            String values = read.values().stream().flatMap(List::stream).collect(Collectors.joining(" "));
            return new Object[] {owned.stream().map(String::valueOf).collect(Collectors.joining(" ")), rebalances, values};
        }

        Object[] leave() throws InterruptedException, TimeoutException {
            isLeaving = true;
            join(LEAVE_MS);
            if (isAlive()) {
                throw new TimeoutException("the consumer does not close");
            }
            return look();
        }

        private synchronized void failed(RuntimeException raised) {
            failure = raised;
        }

        @Override
        public synchronized void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            rebalances++;
            partitions.forEach(partition -> owned.add(partition.partition()));
        }

        @Override
        public synchronized void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            partitions.forEach(partition -> owned.remove(partition.partition()));
        }
    }
}
