import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

/**
 * Writes and reads messages as Kafka's generated classes do, with their values as the JSON of Kafka's own converters.
 *
 * <p>A command is "bytes", a message's name, its version and JSON, or "json", name, version and bytes; text and bytes are base64, fields
 * are separated by tabs. The answer is "= " and the other form, then "done", or "failed", the name of the exception and its message.
 */
public final class MessageBytes {
    private static final ObjectMapper JSON = new ObjectMapper();

    private MessageBytes() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        out.println("listening");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] fields = line.split("\t", -1);
            try {
                byte[] given = Base64.getDecoder().decode(fields[3]);
                short version = Short.parseShort(fields[2]);
                byte[] answer = fields[0].equals("bytes") ? written(fields[1], version, given) : read(fields[1], version, given);
                out.println("= " + Base64.getEncoder().encodeToString(answer));
                out.println("done");
            } catch (ReflectiveOperationException | RuntimeException | java.io.IOException failure) {
                Throwable cause = failure.getCause() == null ? failure : failure.getCause();
                out.println("failed\t" + cause.getClass().getSimpleName() + "\t" + String.valueOf(cause.getMessage()).replace('\n', ' '));
            }
        }
    }

    private static byte[] written(String name, short version, byte[] json) throws ReflectiveOperationException, java.io.IOException {
        JsonNode node = JSON.readTree(new String(json, StandardCharsets.UTF_8));
        Message message = (Message) converter(name).getMethod("read", JsonNode.class, short.class).invoke(null, node, version);
        ByteBuffer buffer = MessageUtil.toByteBuffer(message, version);
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private static byte[] read(String name, short version, byte[] bytes) throws ReflectiveOperationException {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        Class<?> data = data(name);
        Object message = data.getConstructor(Readable.class, short.class).newInstance(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalArgumentException(buffer.remaining() + " bytes were left");
        }
        Object node = converter(name).getMethod("write", data, short.class).invoke(null, message, version);
        return node.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static Class<?> data(String name) throws ClassNotFoundException {
        return Class.forName("org.apache.kafka.common.message." + name + "Data");
    }

    private static Class<?> converter(String name) throws ClassNotFoundException {
        return Class.forName("org.apache.kafka.common.message." + name + "DataJsonConverter");
    }
}
