import com.google.gson.Gson;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import software.amazon.awssdk.awscore.retry.AwsRetryStrategy;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sns.SnsClient;

/** Numbers what any thread hands over and sends it in order (docs/publishing.md). A future is the number, once sent. */
public final class Publisher implements AutoCloseable {
    private final ScheduledThreadPoolExecutor sender = new ScheduledThreadPoolExecutor(1); // one thread keeps the order
    private final SnsClient sns;
    private final String topic, name; // the name is new with each process
    private final Supplier<Instant> through; // all changed at the source by then was handed over; EPOCH: not known
    private long last;
    private boolean signedOff;

    public Publisher(String topic, String name, Supplier<Instant> through) {
        this.topic = topic;
        this.name = name;
        this.through = through;
        var http = UrlConnectionHttpClient.builder().socketTimeout(Duration.ofSeconds(5));
        sns = SnsClient.builder().region(Region.of(topic.split(":")[3])).httpClientBuilder(http)
            .overrideConfiguration(sdk -> sdk.retryStrategy(AwsRetryStrategy.doNotRetry())).build(); // send tries again
        beat();
    }

    public CompletableFuture<Long> changed(String recordType, String key, long version) {
        return say("CHANGED", Map.of("recordType", recordType, "key", key, "version", "" + version)); // 64 bits: text
    }
    public CompletableFuture<Long> deleted(String recordType, String key, long version) {
        return say("DELETED", Map.of("recordType", recordType, "key", key, "version", "" + version));
    }
    public CompletableFuture<Long> reload(String recordType) {
        return say("RELOAD", Map.of("recordType", recordType));
    }

    @Override public void close() { // signs off once all is sent; fails if that takes longer than 30 s
        heartbeat(true).orTimeout(30, TimeUnit.SECONDS).whenComplete((number, late) -> sender.shutdownNow()).join();
    }

    private void beat() {
        heartbeat(false).thenRun(() -> sender.schedule(this::beat, 5, TimeUnit.SECONDS));
    }

    private CompletableFuture<Long> heartbeat(boolean signingOff) { // queued too: never ahead of what it vouches for
        return say("HEARTBEAT", Map.of("ingestedThrough", "" + through.get(), "signingOff", signingOff));
    }

    private synchronized CompletableFuture<Long> say(String kind, Map<String, Object> fields) {
        boolean counts = !kind.equals("HEARTBEAT");
        if (signedOff || counts && sender.getQueue().size() >= 1000) {
            throw new IllegalStateException("not taken: 1,000 announcements wait, or the publisher has signed off");
        }
        signedOff = Boolean.TRUE.equals(fields.get("signingOff"));
        long number = counts ? ++last : last; // a heartbeat repeats the last one
        var said = new HashMap<>(fields);
        said.putAll(Map.of("kind", kind, "publisher", name, "sequence", "" + number));
        if (counts) said.put("ingestedAt", "" + Instant.now());
        var done = new CompletableFuture<Long>(); // it only tells: cancelling it leaves no hole
        sender.execute(() -> send(number, new Gson().toJson(said), done));
        return done;
    }

    private void send(long number, String text, CompletableFuture<Long> done) {
        while (!sender.isShutdown()) {
            try {
                sns.publish(message -> message.topicArn(topic).message(text));
                done.complete(number);
                return;
            } catch (RuntimeException error) { // whatever it was, what comes later must not overtake this
                System.err.printf("number %d goes again in a second: %s%n", number, error.getMessage());
                LockSupport.parkNanos(1_000_000_000);
            }
        }
    }
}
