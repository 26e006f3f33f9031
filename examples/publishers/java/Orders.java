import java.time.Instant;
import java.util.Scanner;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;

/** Takes orders from standard input. Here a change is made when its line is read: all is handed over through now. */
public final class Orders {
    public static void main(String[] arguments) throws InterruptedException {
        var name = arguments.length > 1 ? arguments[1] : UUID.randomUUID().toString();
        try (var publisher = new Publisher(arguments[0], name, Instant::now); var lines = new Scanner(System.in)) {
            while (lines.hasNextLine()) {
                try {
                    obey(publisher, lines.nextLine().strip().split("\\s+"));
                } catch (ArrayIndexOutOfBoundsException | IllegalArgumentException error) {
                    System.err.println("orders: changed|deleted TYPE KEY VERSION, reload TYPE, wait SECONDS");
                }
            }
        }
    }

    private static void obey(Publisher publisher, String[] words) throws InterruptedException {
        switch (words[0]) {
            case "" -> { }
            case "wait" -> Thread.sleep((long) (1000 * Double.parseDouble(words[1])));
            case "changed" -> told(publisher.changed(words[1], words[2], Long.parseLong(words[3])));
            case "deleted" -> told(publisher.deleted(words[1], words[2], Long.parseLong(words[3])));
            case "reload" -> told(publisher.reload(words[1]));
            default -> throw new IllegalArgumentException("no such order");
        }
    }

    private static void told(CompletableFuture<Long> announced) {
        System.out.println("announced " + announced.join());
    }
}
