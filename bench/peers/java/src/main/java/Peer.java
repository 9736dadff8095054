import io.github.bucket4j.Bandwidth;
import io.github.bucket4j.Bucket;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * bucket4j, by the protocol of bench/peers/PROTOCOL.md: a bucket for each key in a ConcurrentHashMap, as its documentation shows.
 *
 * A String remembers its hash, and the drawn ones come round again: in favour of this peer.
 */
final class Peer {
    /** What a thread counts. */
    private static final class Job {
        int next;
        long decisions, refused, wrong, began, ended;
    }

    private final int keys, draws, refused, threads;
    private final boolean zipf, single;
    private final double seconds;
    private final boolean[] tight;
    private final ConcurrentHashMap<String, Bucket> buckets = new ConcurrentHashMap<>();
    private Bucket only;
    private String[] drawn;
    private boolean[] drawnTight;

    private Peer(Map<String, String> options, boolean single) {
        keys = Integer.parseInt(options.getOrDefault("--keys", "1"));
        draws = Integer.parseInt(options.getOrDefault("--draws", "4194304"));
        refused = Integer.parseInt(options.getOrDefault("--refused", "0"));
        threads = Integer.parseInt(options.getOrDefault("--threads", "1"));
        zipf = options.getOrDefault("--distribution", "uniform").equals("zipf");
        seconds = Double.parseDouble(options.getOrDefault("--seconds", "1"));
        this.single = single;
        tight = new boolean[keys];
        chooseTight();
        drawKeys();
    }

    private double weight(int key) {
        return zipf ? Math.pow(key + 1.0, -1.1) : 1;
    }

    private void chooseTight() {
        double all = 0, sum = 0;
        for (int key = 0; key < keys; key++) {
            double weight = weight(key);
            all += weight;
            tight[key] = (sum + weight / 2) * 100 <= refused * all;
            sum += tight[key] ? weight : 0;
        }
    }

    private void drawKeys() {
        double[] sums = new double[zipf ? keys : 0];
        double sum = 0;
        for (int key = 0; key < sums.length; key++)
            sums[key] = sum += weight(key);
        drawn = new String[draws];
        drawnTight = new boolean[draws];
        int x = (int) 2463534242L;
        for (int i = 0; i < draws; i++) {
            x ^= x << 13;
            x ^= x >>> 17;
            x ^= x << 5;
            long unsigned = Integer.toUnsignedLong(x);
            int key = zipf ? find(sums, unsigned / 4294967296.0 * sum) : (int) (unsigned * keys >>> 32);
            drawn[i] = name(key);
            drawnTight[i] = tight[key];
        }
    }

    /** The first key whose sum is above the value. */
    private int find(double[] sums, double value) {
        int low = 0, high = keys - 1;
        while (low < high) {
            int middle = (low + high) / 2;
            if (sums[middle] > value)
                high = middle;
            else
                low = middle + 1;
        }
        return low;
    }

    private static String name(int key) {
        char[] text = "user:00000000".toCharArray();
        for (int at = text.length - 1; key > 0; at--, key /= 10)
            text[at] = (char) ('0' + key % 10);
        return new String(text);
    }

    /* ---- the library ---- */

    private Bucket bucket(boolean isTight) {
        long every = Math.min(Math.max(keys * 10_000L, 1_000_000), 10_000_000_000L);
        long burst = Math.min(1_000_000_000_000_000_000L / every, 1_000_000_000);
        Bandwidth limit = isTight
            ? Bandwidth.builder().capacity(1).refillGreedy(1, Duration.ofDays(1)).build()
            : Bandwidth.builder().capacity(burst).refillGreedy(1, Duration.ofNanos(every)).build();
        return Bucket.builder().addLimit(limit).build();
    }

    private boolean allow(String key, boolean isTight) {
        if (single)
            return only.tryConsume(1);
        Bucket bucket = buckets.get(key);
        if (bucket == null)
            bucket = buckets.computeIfAbsent(key, absent -> bucket(isTight));
        return bucket.tryConsume(1);
    }

    private void fill() {
        only = bucket(refused == 100);
        for (int key = 0; key < keys; key++)
            allow(name(key), tight[key]);
    }

    /* ---- parts ---- */

    private void run(Job job) {
        job.began = job.ended = System.nanoTime();
        long length = (long) (seconds * 1e9);
        int next = job.next;
        long wrong = 0, denied = 0;
        while (job.ended - job.began < length) {
            for (int i = 0; i < 256; i++) {
                boolean isTight = drawnTight[next];
                boolean allowed = allow(drawn[next], isTight);
                next = next + 1 == draws ? 0 : next + 1;
                denied += allowed ? 0 : 1;
                wrong += allowed == isTight ? 1 : 0;
            }
            job.decisions += 256;
            job.ended = System.nanoTime();
        }
        job.next = next;
        job.wrong = wrong;
        job.refused = denied;
    }

    private void part(int[] next) throws InterruptedException {
        Job[] jobs = new Job[threads];
        Thread[] running = new Thread[threads];
        long before = processorNanoseconds();
        for (int i = 0; i < threads; i++) {
            Job job = jobs[i] = new Job();
            job.next = next[i];
            running[i] = new Thread(() -> run(job));
            running[i].start();
        }
        for (Thread thread : running)
            thread.join();
        long spent = processorNanoseconds() - before;
        for (int i = 0; i < threads; i++)
            next[i] = jobs[i].next;
        long began = Arrays.stream(jobs).mapToLong(job -> job.began).min().getAsLong();
        long ended = Arrays.stream(jobs).mapToLong(job -> job.ended).max().getAsLong();
        System.out.printf("{\"decisions\": %d, \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"refused\": %d, \"wrong\": %d}%n",
            Arrays.stream(jobs).mapToLong(job -> job.decisions).sum(), (ended - began) / 1e9, spent / 1e9,
            Arrays.stream(jobs).mapToLong(job -> job.refused).sum(), Arrays.stream(jobs).mapToLong(job -> job.wrong).sum());
    }

    private static long processorNanoseconds() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static long residentBytes() throws IOException {
        System.gc();
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4096;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        boolean single = false;
        for (int i = 1; i < arguments.length; i++) {
            if (arguments[i].equals("--single"))
                single = true;
            else
                options.put(arguments[i], arguments[++i]);
        }
        Peer peer = new Peer(options, single);
        long before = residentBytes();
        peer.fill();
        System.out.printf("{\"library\": \"%s\", \"version\": \"%s\", \"rss_before\": %d, \"rss_after\": %d}%n", arguments[0],
            System.getProperty("peers.version", "unknown"), before, residentBytes());
        int[] next = new int[peer.threads];
        for (int i = 0; i < next.length; i++)
            next[i] = (int) ((long) i * peer.draws / peer.threads);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        while (input.readLine() != null)
            peer.part(next);
    }
}
