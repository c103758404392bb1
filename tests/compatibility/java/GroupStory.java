import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Does with groups what is rarely done to them, and tells what the stock client hears. Told to Apache Kafka and to another broker, the story
 * must be the same: it holds no ids, times or epochs.
 */
public final class GroupStory {
    private static final long PATIENCE_S = 20;
    private static final Duration POLL = Duration.ofMillis(50);
    private static final TopicPartition PLACE = new TopicPartition("story-one", 0);
    private static final String[] MODERN = {"group.protocol", "consumer"};

    private final String bootstrap;
    private final Admin admin;

    private GroupStory(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] arguments) throws Exception {
        GroupStory story = new GroupStory(arguments[0]);
        story.prepare();
        story.staticMembers();
        story.refusedMembers();
        story.patterns();
        story.strangers();
        story.offsets();
        story.overview();
        story.admin.close();
    }

    private void prepare() throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (String name : List.of("story-one", "story-two", "no-story")) {
            topics.add(new NewTopic(name, 2, (short) 1));
        }
        admin.createTopics(topics).all().get();
    }

    private void staticMembers() throws Exception {
        try (Consumer<String, String> removed = consumer("story-removed", "group.instance.id", "one")) {
            removed.subscribe(List.of("story-one"));
            assigned("static", removed, 2);
            String before = memberId("story-removed");
            tell("remove", answer(remove("story-removed", "one")));
            await(() -> polled(removed) && !removed.groupMetadata().memberId().equals(before));
            assigned("removed and back", removed, 2);
        }
        tell("remove a stranger", answer(remove("story-removed", "nobody")));
        tell("remove from nowhere", answer(remove("story-nowhere", "one")));
        for (String protocol : List.of("classic", "consumer")) {
            String[] same = {"group.protocol", protocol, "group.instance.id", "same"};
            try (Consumer<String, String> first = consumer("story-twins-" + protocol, same); Consumer<String, String> second = consumer("story-twins-" + protocol, same)) {
                first.subscribe(List.of("story-one"));
                assigned(protocol + " twin", first, 2);
                second.subscribe(List.of("story-one"));
                if (protocol.equals("classic")) {
                    assigned("its twin", second, 2);
                    tell("the first twin", failure(first));
                } else {
                    tell("its twin", failure(second));
                }
            }
        }
    }

    private void refusedMembers() throws Exception {
        try (Consumer<String, String> hasty = consumer("story-hasty", "session.timeout.ms", "100", "heartbeat.interval.ms", "50")) {
            hasty.subscribe(List.of("story-one"));
            tell("a session of 0.1 s", failure(hasty));
        }
        try (Consumer<String, String> odd = consumer("story-odd", "group.protocol", "consumer", "group.remote.assignor", "nonsense")) {
            odd.subscribe(List.of("story-one"));
            tell("an assignor that is not there", failure(odd));
        }
        String assignor = "partition.assignment.strategy";
        String there = "org.apache.kafka.clients.consumer.";
        try (Consumer<String, String> eager = consumer("story-mixed", assignor, there + "RangeAssignor");
                Consumer<String, String> other = consumer("story-mixed", assignor, there + "RoundRobinAssignor")) {
            eager.subscribe(List.of("story-one"));
            assigned("range", eager, 2);
            other.subscribe(List.of("story-one"));
            tell("an assignor of its own", failure(other));
        }
    }

    private void patterns() throws Exception {
        try (Consumer<String, String> reader = consumer("story-pattern", MODERN)) {
            reader.subscribe(new SubscriptionPattern("story-.*"));
            assigned("pattern", reader, 4);
            ConsumerGroupDescription described = admin.describeConsumerGroups(List.of("story-pattern")).all().get().get("story-pattern");
            tell("described", described.type(), described.partitionAssignor(), described.groupState(), described.isSimpleConsumerGroup());
            described.members().forEach(member -> tell("member", places(member.assignment().topicPartitions()), member.upgraded(), member.host()));
        }
        try (Consumer<String, String> reader = consumer("story-pattern", MODERN)) {
            reader.subscribe(new SubscriptionPattern("story-("));
            tell("a broken pattern", failure(reader).split(":")[0]); // what is wrong with it is said in words of one's own
        }
    }

    private void strangers() throws Exception {
        for (String protocol : List.of("classic", "consumer")) {
            try (Consumer<String, String> member = consumer("story-busy-" + protocol, "group.protocol", protocol);
                    Consumer<String, String> stranger = consumer("story-busy-" + protocol)) {
                member.subscribe(List.of("story-one"));
                assigned(protocol, member, 2);
                stranger.assign(List.of(PLACE));
                tell("a stranger commits", attempt(() -> stranger.commitSync(Map.of(PLACE, new OffsetAndMetadata(0)))));
                OffsetAndMetadata noted = new OffsetAndMetadata(0, "x".repeat(5000));
                tell("a long note", attempt(() -> member.commitSync(Map.of(PLACE, noted))));
                TopicPartition nowhere = new TopicPartition("nowhere", 0);
                tell("a topic that is not there", attempt(() -> member.commitSync(Map.of(nowhere, new OffsetAndMetadata(0)), Duration.ofSeconds(1))));
                tell("delete", answer(admin.deleteConsumerGroups(List.of("story-busy-" + protocol)).all()));
                tell("delete offsets", answer(admin.deleteConsumerGroupOffsets("story-busy-" + protocol, Set.of(PLACE)).partitionResult(PLACE)));
                tell("alter", answer(admin.alterConsumerGroupOffsets("story-busy-" + protocol, Map.of(PLACE, new OffsetAndMetadata(0))).all()));
            }
        }
    }

    private void offsets() throws Exception {
        try (Consumer<String, String> simple = consumer("story-simple")) {
            simple.assign(List.of(PLACE));
            await(() -> polled(simple) && simple.position(PLACE) == 0);
            simple.commitSync();
            tell("simple", simple.committed(Set.of(PLACE)));
        }
        OffsetAndMetadata noted = new OffsetAndMetadata(0, Optional.of(0), "note");
        tell("alter", answer(admin.alterConsumerGroupOffsets("story-made", Map.of(PLACE, noted)).all()));
        TopicPartition nowhere = new TopicPartition("nowhere", 0);
        tell("alter what is not there", answer(admin.alterConsumerGroupOffsets("story-made", Map.of(nowhere, noted)).all()));
        ListConsumerGroupOffsetsSpec all = new ListConsumerGroupOffsetsSpec();
        tell("list", new TreeMap<>(admin.listConsumerGroupOffsets(Map.of("story-made", all, "story-unmade", all)).all().get()));
        tell("delete offsets", answer(admin.deleteConsumerGroupOffsets("story-made", Set.of(PLACE)).partitionResult(PLACE)));
        tell("delete offsets again", answer(admin.deleteConsumerGroupOffsets("story-made", Set.of(PLACE)).partitionResult(PLACE)));
        tell("list", admin.listConsumerGroupOffsets("story-made").partitionsToOffsetAndMetadata().get());
        tell("delete", answer(admin.deleteConsumerGroups(List.of("story-made")).all()));
        tell("delete again", answer(admin.deleteConsumerGroups(List.of("story-made")).all()));
        tell("describe", answer(admin.describeConsumerGroups(List.of("story-made")).all()));
        tell("describe", answer(admin.describeClassicGroups(List.of("story-made")).all()));
        tell("delete the topic", answer(admin.deleteTopics(List.of("story-one")).all()));
        await(() -> committed("story-simple").isEmpty());
        tell("its offsets", committed("story-simple"));
    }

    private void overview() throws Exception {
        tell("classic and empty", groups(new ListGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY)).withTypes(Set.of(GroupType.CLASSIC))));
        tell("consumer", groups(new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER))));
    }

    // --- what happens ----------------------------------------------------------------------------------------------------------------

    private Consumer<String, String> consumer(String group, String... settings) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", group));
        config.putAll(Map.of("enable.auto.commit", "false", "auto.offset.reset", "earliest"));
        for (int index = 0; index < settings.length; index += 2) {
            config.put(settings[index], settings[index + 1]);
        }
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    private KafkaFuture<Void> remove(String group, String instance) {
        return admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove(instance)))).all();
    }

    private String memberId(String group) throws Exception {
        return admin.describeConsumerGroups(List.of(group)).all().get().get(group).members().iterator().next().consumerId();
    }

    private Map<TopicPartition, OffsetAndMetadata> committed(String group) {
        try {
            return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        } catch (InterruptedException | ExecutionException failure) {
            throw new IllegalStateException(failure);
        }
    }

    private List<String> groups(ListGroupsOptions options) throws Exception {
        return admin.listGroups(options).all().get().stream()
                .filter(group -> group.groupId().startsWith("story-"))
                .map(group -> group.groupId() + " " + group.protocol())
                .sorted()
                .collect(Collectors.toList());
    }

    private void assigned(String what, Consumer<String, String> consumer, int count) {
        await(() -> polled(consumer) && consumer.assignment().size() == count);
        tell(what, places(consumer.assignment()));
    }

    private static boolean polled(Consumer<String, String> consumer) {
        consumer.poll(POLL);
        return true;
    }

    private static void await(BooleanSupplier fact) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
        while (!fact.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("what was waited for did not happen");
            }
        }
    }

    // --- what is told ----------------------------------------------------------------------------------------------------------------

    private static String failure(Consumer<String, String> consumer) {
        return attempt(() -> await(() -> polled(consumer) && false));
    }

    private static String attempt(Runnable action) {
        try {
            action.run();
            return "done";
        } catch (RuntimeException failure) {
            return text(failure);
        }
    }

    private static String answer(KafkaFuture<?> future) throws InterruptedException {
        try {
            future.get();
            return "done";
        } catch (ExecutionException failure) {
            return text(failure.getCause());
        }
    }

    /** The error as the client words it, without ids that differ from run to run. */
    private static String text(Throwable failure) {
        return failure.getClass().getSimpleName() + ": " + String.valueOf(failure.getMessage()).replaceAll("\\b[\\w-]{22}\\b", "<id>");
    }

    private static List<String> places(Set<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::toString).sorted().collect(Collectors.toList());
    }

    private static void tell(Object... fields) {
        System.out.println("= " + Arrays.stream(fields).map(String::valueOf).collect(Collectors.joining("\t")));
    }
}
