import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntToLongFunction;
import org.redisson.Redisson;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RFuture;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** The rows of compare.py for Redisson's RDelayedQueue: Bench REDIS_PORT ROW COUNT IDS BYTES. Its messages have no ids. */
@SuppressWarnings("deprecation")
public final class Bench {
    private static final long HOUR_MS = 3_600_000;

    private final RedissonClient client;
    private final RBlockingQueue<String> ready;
    private final RDelayedQueue<String> delayed;
    private final int count;
    private final int bytes;

    private Bench(String port, int count, int bytes) {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port)
            .setConnectionPoolSize(96).setConnectionMinimumIdleSize(8);
        this.client = Redisson.create(config);
        this.ready = client.getBlockingQueue("orders");
        this.delayed = client.getDelayedQueue(ready);
        this.count = count;
        this.bytes = bytes;
    }

    public static void main(String[] arguments) throws Exception {
        Bench bench = new Bench(arguments[0], Integer.parseInt(arguments[2]), Integer.parseInt(arguments[4]));
        String figures = switch (arguments[1]) {
            case "put_bulk" -> bench.putBulk();
            case "put_single" -> bench.putSingle();
            case "memory" -> bench.memory();
            case "storm" -> bench.storm();
            case "lateness" -> bench.lateness();
            case "take" -> bench.take();
            default -> throw new IllegalArgumentException(arguments[1]);
        };
        System.out.println(figures);
        System.exit(0);
    }

    private String order(int n, long due) {
        String head = "{\"order\":" + n + ",\"due\":" + due + ",\"text\":\"";
        return head + "x".repeat(bytes - 2 - head.length()) + "\"}";
    }

    private static String figure(String name, double value) {
        return String.format(Locale.ROOT, "{\"%s\":%f}", name, value);
    }

    /** Batches of 100, each awaited as a whole: it has no call for many. */
    private void fill(IntToLongFunction delayMs) throws Exception {
        for (int first = 0; first < count; first += 100) {
            List<RFuture<Void>> batch = new ArrayList<>(100);
            for (int n = first; n < Math.min(count, first + 100); n++) {
                long delay = delayMs.applyAsLong(n);
                batch.add(delayed.offerAsync(order(n, System.currentTimeMillis() + delay), delay, TimeUnit.MILLISECONDS));
            }
            for (RFuture<Void> one : batch) one.get();
        }
    }

    private String putBulk() throws Exception {
        long start = System.nanoTime();
        fill(n -> HOUR_MS);
        return figure("put_bulk", count * 1e9 / (System.nanoTime() - start));
    }

    private String putSingle() throws Exception {
        AtomicInteger next = new AtomicInteger();
        long start = System.nanoTime();
        threads(() -> {
            for (int n = next.getAndIncrement(); n < count; n = next.getAndIncrement()) {
                delayed.offer(order(n, 0), HOUR_MS, TimeUnit.MILLISECONDS);
            }
        });
        return figure("put_single", count * 1e9 / (System.nanoTime() - start));
    }

    /** Bytes are counted by who asks. */
    private String memory() throws Exception {
        fill(n -> HOUR_MS + n * 10L);
        return "{}";
    }

    private String storm() throws Exception {
        long due = System.currentTimeMillis() + 10_000;
        fill(n -> due - System.currentTimeMillis());
        long left = due - System.currentTimeMillis();
        if (left < 0) throw new IllegalStateException("too slow to put them in 10 s");
        Thread.sleep(left);
        while (ready.size() < count) Thread.sleep(2);
        return figure("storm", (System.currentTimeMillis() - due) / 1000.0);
    }

    private String lateness() throws Exception {
        long start = System.currentTimeMillis() + 8000;
        Random random = new Random();
        long[] dues = new long[count];
        for (int n = 0; n < count; n++) dues[n] = start + random.nextInt(count);
        fill(n -> dues[n] - System.currentTimeMillis());
        if (System.currentTimeMillis() > start) throw new IllegalStateException("too slow to put them in 8 s");
        ConcurrentLinkedQueue<Double> late = new ConcurrentLinkedQueue<>();
        Queue<String> orders = new ConcurrentLinkedQueue<>();
        AtomicInteger left = new AtomicInteger(count);
        threads(() -> {
            while (left.get() > 0) {
                String order = ready.poll(1, TimeUnit.SECONDS);
                if (order == null) continue;
                late.add((double) (System.currentTimeMillis() - dues[numberOf(order)]));
                orders.add(order);
                left.decrementAndGet();
            }
        });
        double[] all = late.stream().mapToDouble(Double::doubleValue).sorted().toArray();
        long early = Arrays.stream(all).filter(ms -> ms < 0).count();
        return String.format(Locale.ROOT, "{\"p50\":%f,\"p99\":%f,\"max\":%f,\"early\":%d,\"distinct\":%d}",
            all[count / 2], all[(int) (count * 0.99)], all[count - 1], early, distinct(orders));
    }

    /** It has no ack: what is polled is gone. */
    private String take() throws Exception {
        for (int n = 0; n < count; n++) ready.addAsync(order(n, 0));
        while (ready.size() < count) Thread.sleep(2);
        AtomicInteger left = new AtomicInteger(count);
        Queue<String> orders = new ConcurrentLinkedQueue<>();
        long start = System.nanoTime();
        threads(() -> {
            while (left.getAndDecrement() > 0) orders.add(ready.poll());
        });
        double rate = count * 1e9 / (System.nanoTime() - start);
        return String.format(Locale.ROOT, "{\"take\":%f,\"distinct\":%d}", rate, distinct(orders));
    }

    private static int numberOf(String order) {
        return Integer.parseInt(order.substring(9, order.indexOf(',')));
    }

    private static long distinct(Queue<String> orders) {
        return orders.stream().mapToInt(Bench::numberOf).distinct().count();
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void threads(Work work) throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 64; i++) {
            Thread thread = new Thread(() -> {
                try {
                    work.run();
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) thread.join();
    }
}
