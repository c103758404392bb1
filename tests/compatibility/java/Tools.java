import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's own tools one after the other, so that one JVM serves many tests.
 *
 * <p>A command is the name of a tool's main class and its arguments, separated by tabs. The answer is "= line" for each line the tool wrote,
 * then "done", or "failed", its exit code and what it wrote to stderr.
 */
public final class Tools {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private Tools() {
    }

    /** Thrown where a tool would end the JVM. */
    private static final class Ended extends RuntimeException {
        private static final long serialVersionUID = 1;
        private final int code;

        Ended(int code) {
            super("exit code " + code, null, false, false);
            this.code = code;
        }
    }

    private static Ended firstEnd; // some tools take their own end for a failure, and end again

    public static void main(String[] ignored) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            firstEnd = firstEnd == null ? new Ended(code) : firstEnd;
            throw firstEnd;
        });
        OUT.println("listening");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] fields = line.split("\t", -1);
            run(fields[0], Arrays.copyOfRange(fields, 1, fields.length));
        }
    }

    private static void run(String tool, String[] arguments) throws Exception {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
        int code = exitCode(tool, arguments);
        said.toString(StandardCharsets.UTF_8).lines().forEach(line -> OUT.println("= " + line));
        String complaint = complained.toString(StandardCharsets.UTF_8).strip().replaceAll("\\s+", " ");
        OUT.println(code == 0 ? "done" : "failed\t" + code + "\t" + complaint);
    }

    private static int exitCode(String tool, String[] arguments) throws Exception {
        firstEnd = null;
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException failure) {
            if (failure.getCause() != firstEnd) {
                throw failure;
            }
        }
        return firstEnd == null ? 0 : firstEnd.code;
    }
}
