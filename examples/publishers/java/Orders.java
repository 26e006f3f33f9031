import java.time.Instant;
import java.util.Scanner;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;

/** Takes orders from standard input. Here a change is made when its line is read: all is handed over through now. */
public final class Orders {
    public static void main(String[] arguments) throws InterruptedException {
        var name = arguments.length > 1 ? arguments[1] : UUID.randomUUID().toString();
        try (var publisher = new Publisher(arguments[0], name, Instant::now); var words = new Scanner(System.in)) {
            while (words.hasNext()) {
                switch (words.next()) {
                    case "wait" -> Thread.sleep((long) (1000 * Double.parseDouble(words.next())));
                    case "changed" -> told(publisher.changed(words.next(), words.next(), words.nextLong()));
                    case "deleted" -> told(publisher.deleted(words.next(), words.next(), words.nextLong()));
                    case "reload" -> told(publisher.reload(words.next()));
                    default -> throw new IllegalArgumentException("no such order");
                }
            }
        }
    }

    private static void told(CompletableFuture<Long> announced) {
        System.out.println("announced " + announced.join());
    }
}
