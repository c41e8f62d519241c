import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryNTimes;

/** Uses Curator's locks as it is told, a command a line, and answers each with one line. All on one thread, one owner. */
public class CuratorPeer {
    private static final int WAIT_S = 60;

    private static CuratorFramework client;
    private static final Map<String, InterProcessMutex> locks = new HashMap<>();
    private static final Map<String, CountDownLatch> asked = new HashMap<>();

    private static InterProcessMutex lock(String kind, String path) {
        if (!locks.containsKey(kind + path)) {
            InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
            locks.put("read" + path, both.readLock());
            locks.put("write" + path, both.writeLock());
            locks.put("mutex" + path, new InterProcessMutex(client, path));
        }
        return locks.get(kind + path);
    }

    private static String run(String[] words) throws Exception {
        switch (words[0]) {
            case "acquire":
                return String.valueOf(lock(words[1], words[2]).acquire(Long.parseLong(words[3]), TimeUnit.MILLISECONDS));
            case "release":
                lock(words[1], words[2]).release();
                return "released";
            case "revocable":
                CountDownLatch latch = new CountDownLatch(1);
                asked.put(words[1] + words[2], latch);
                lock(words[1], words[2]).makeRevocable(which -> latch.countDown());
                return "revocable";
            case "asked":
                return String.valueOf(asked.get(words[1] + words[2]).await(Long.parseLong(words[3]), TimeUnit.MILLISECONDS));
            case "revoke":
                Revoker.attemptRevoke(client, words[1]);
                return "sent";
            case "count":
                for (int i = 0; i < Integer.parseInt(words[4]); i++) {
                    increment(lock(words[1], words[2]), words[3]);
                }
                return "counted";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** Read, add one, write, under the lock: two holders at once would lose one. */
    private static void increment(InterProcessMutex mutex, String counter) throws Exception {
        if (!mutex.acquire(WAIT_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no lock in time");
        }
        try {
            String text = new String(client.getData().forPath(counter), StandardCharsets.UTF_8);
            byte[] next = String.valueOf(Integer.parseInt(text) + 1).getBytes(StandardCharsets.UTF_8);
            client.setData().forPath(counter, next);
        } finally {
            mutex.release();
        }
    }

    public static void main(String[] arguments) throws Exception {
        client = CuratorFrameworkFactory.newClient(arguments[0], 10000, 10000, new RetryNTimes(3, 100));
        client.start();
        if (!client.blockUntilConnected(WAIT_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("not connected");
        }
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(run(line.split(" ")));
        }
        client.close();
    }
}
