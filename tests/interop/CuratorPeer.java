import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryNTimes;

/**
 * Uses Curator's recipes as it is told: a line "tag peer command arguments" each, answered with "tag result".
 *
 * <p>A peer has a client, a session and a thread of its own, so it is an owner of its own; all peers share this process.
 */
public class CuratorPeer {
    private static final long WAIT_MS = 60_000;
    private static final long POLL_MS = 1;

    /** What one owner does on one path with one kind of lock. */
    private interface Recipe {
        boolean acquire(long ms) throws Exception;

        void release() throws Exception;

        /** What Curator itself says who is in the queue. */
        Collection<?> participants() throws Exception;
    }

    private static class Mutex implements Recipe {
        final InterProcessMutex mutex;

        Mutex(InterProcessMutex mutex) {
            this.mutex = mutex;
        }

        public boolean acquire(long ms) throws Exception {
            return mutex.acquire(ms, TimeUnit.MILLISECONDS);
        }

        public void release() throws Exception {
            mutex.release();
        }

        public Collection<?> participants() throws Exception {
            return mutex.getParticipantNodes();
        }
    }

    private static class Latch implements Recipe {
        final CuratorFramework client;
        final String path;
        final String id;
        LeaderLatch latch;

        Latch(CuratorFramework client, String path, String id) {
            this.client = client;
            this.path = path;
            this.id = id;
        }

        public boolean acquire(long ms) throws Exception {
            latch = new LeaderLatch(client, path, id);
            latch.start();
            boolean leads = latch.await(ms, TimeUnit.MILLISECONDS);
            if (!leads) {
                latch.close();
            }
            return leads;
        }

        public void release() throws Exception {
            latch.close();
        }

        public Collection<?> participants() throws Exception {
            return ids(latch.getParticipants());
        }
    }

    private static class Selector implements Recipe {
        final CuratorFramework client;
        final String path;
        final String id;
        LeaderSelector selector;
        CountDownLatch leave;

        Selector(CuratorFramework client, String path, String id) {
            this.client = client;
            this.path = path;
            this.id = id;
        }

        public boolean acquire(long ms) throws Exception {
            CountDownLatch entered = new CountDownLatch(1);
            CountDownLatch mayLeave = new CountDownLatch(1);
            leave = mayLeave;
            selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
                public void takeLeadership(CuratorFramework client) throws Exception {
                    entered.countDown();
                    mayLeave.await();
                }
            });
            selector.setId(id);
            selector.start();
            boolean leads = entered.await(ms, TimeUnit.MILLISECONDS);
            if (!leads) {
                release();
            }
            return leads;
        }

        public void release() {
            leave.countDown();
            selector.close();
        }

        public Collection<?> participants() throws Exception {
            return ids(selector.getParticipants());
        }
    }

    private static Collection<String> ids(Collection<Participant> participants) {
        List<String> ids = new ArrayList<>();
        for (Participant each : participants) {
            ids.add(each.getId() + (each.isLeader() ? "*" : ""));
        }
        return ids;
    }

    private final String name;
    private final CuratorFramework client;
    private final ExecutorService thread = Executors.newSingleThreadExecutor();
    private final Map<String, Recipe> recipes = new HashMap<>();
    private final Map<String, CountDownLatch> asked = new HashMap<>();

    private CuratorPeer(String name, String hosts) throws Exception {
        this.name = name;
        client = CuratorFrameworkFactory.newClient(hosts, 10000, 10000, new RetryNTimes(3, 100));
        client.start();
        if (!client.blockUntilConnected((int) WAIT_MS, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("not connected");
        }
    }

    private Recipe recipe(String kind, String path) {
        if (!recipes.containsKey(kind + path)) {
            InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
            recipes.put("read" + path, new Mutex(both.readLock()));
            recipes.put("write" + path, new Mutex(both.writeLock()));
            recipes.put("mutex" + path, new Mutex(new InterProcessMutex(client, path)));
            recipes.put("latch" + path, new Latch(client, path, name));
            recipes.put("selector" + path, new Selector(client, path, name));
        }
        return recipes.get(kind + path);
    }

    private String run(String[] words) throws Exception {
        String key = words.length > 2 ? words[1] + words[2] : "";
        switch (words[0]) {
            case "acquire":
                return String.valueOf(recipe(words[1], words[2]).acquire(Long.parseLong(words[3])));
            case "release":
                recipe(words[1], words[2]).release();
                return "released";
            case "participants":
                return recipe(words[1], words[2]).participants().toString();
            case "revocable":
                CountDownLatch latch = new CountDownLatch(1);
                asked.put(key, latch);
                ((Mutex) recipe(words[1], words[2])).mutex.makeRevocable(which -> latch.countDown());
                return "revocable";
            case "asked":
                return String.valueOf(asked.get(key).await(Long.parseLong(words[3]), TimeUnit.MILLISECONDS));
            case "revoke":
                Revoker.attemptRevoke(client, words[1]);
                return "sent";
            case "turns":
                return turns(recipe(words[1], words[2]), words[2], Integer.parseInt(words[3]));
            case "count":
                for (int i = 0; i < Integer.parseInt(words[4]); i++) {
                    increment(recipe(words[1], words[2]), words[3]);
                }
                return "counted";
            case "now":
                return String.valueOf(System.nanoTime());
            case "close":
                client.close();
                thread.shutdown();
                return "closed";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** Take turns with somebody else: hold until the other queues up behind. Returns when each turn began and ended. */
    private String turns(Recipe recipe, String path, int count) throws Exception {
        StringBuilder history = new StringBuilder();
        for (int left = count; left > 0; left--) {
            if (!recipe.acquire(WAIT_MS)) {
                throw new IllegalStateException("no turn in time");
            }
            history.append(System.nanoTime()).append(':');
            long giveUp = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(WAIT_MS);
            while (left > 1 && client.getChildren().forPath(path).size() < 2 && System.nanoTime() < giveUp) {
                Thread.sleep(POLL_MS);
            }
            history.append(System.nanoTime()).append(',');
            recipe.release();
        }
        return history.toString();
    }

    /** Read, add one, write, under the lock: two holders at once would lose one. */
    private void increment(Recipe recipe, String counter) throws Exception {
        if (!recipe.acquire(WAIT_MS)) {
            throw new IllegalStateException("no lock in time");
        }
        try {
            String text = new String(client.getData().forPath(counter), StandardCharsets.UTF_8);
            byte[] next = String.valueOf(Integer.parseInt(text) + 1).getBytes(StandardCharsets.UTF_8);
            client.setData().forPath(counter, next);
        } finally {
            recipe.release();
        }
    }

    private static synchronized void answer(String tag, String text) {
        System.out.println(tag + " " + text);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, CuratorPeer> peers = new HashMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            String tag = words[0];
            if (!peers.containsKey(words[1])) {
                peers.put(words[1], new CuratorPeer(words[1], arguments[0]));
            }
            CuratorPeer peer = peers.get(words[1]);
            String[] command = java.util.Arrays.copyOfRange(words, 2, words.length);
            peer.thread.execute(() -> {
                try {
                    answer(tag, peer.run(command));
                } catch (Throwable problem) {
                    answer(tag, "!" + problem);
                }
            });
        }
        System.exit(0);
    }
}
