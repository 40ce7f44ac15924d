import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools one after the other in one process. A line of input has three parts with tabs between:
 * the milliseconds for which a tool's threads may continue after its main method, its main class, and its arguments. The
 * answer is a line with the exit code and the number of bytes that follow: the tool's standard output and errors in one.
 */
public class Tools {
    static class Exited extends RuntimeException {
        final int code;

        Exited(int code) {
            super(null, null, false, false);
            this.code = code;
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        PrintStream errors = System.err;
        Exit.setExitProcedure((code, message) -> {
            throw new Exited(code);
        });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream written = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(written, true, StandardCharsets.UTF_8);
            System.setOut(both);
            System.setErr(both);
            int code = run(line.split("\t", -1), both);
            System.setOut(answers);
            System.setErr(errors);
            answers.println(code + " " + written.size());
            answers.flush();
            written.writeTo(answers);
            answers.flush();
        }
    }

    private static int run(String[] words, PrintStream output) throws Exception {
        String[] arguments = java.util.Arrays.copyOfRange(words, 2, words.length);
        try {
            Class.forName(words[1]).getMethod("main", String[].class).invoke(null, (Object) arguments);
            Thread.sleep(Long.parseLong(words[0]));
            return 0;
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Exited) {
                return ((Exited) error.getCause()).code;
            }
            error.getCause().printStackTrace(output);
            return 1;
        }
    }
}
