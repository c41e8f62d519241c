import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

/** Runs Curator's recipes against the server named by the first argument; prints one line for each that works. */
public class EmbeddedCheck {
    private static final int WAIT_S = 20;

    private static CuratorFramework client(String hosts) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(hosts, 10000, 10000, new RetryNTimes(3, 100));
        client.start();
        check(client.blockUntilConnected(WAIT_S, TimeUnit.SECONDS), "connected");
        return client;
    }

    private static void check(boolean isTrue, String what) {
        if (!isTrue) {
            throw new IllegalStateException("not " + what);
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (CuratorFramework one = client(arguments[0]); CuratorFramework two = client(arguments[0])) {
            mutex(one, two);
            readWriteLock(one, two);
            semaphore(one, two);
            leaderLatch(one, two);
            cache(one, two);
            sharedCount(one, two);
            nodes(one, two);
            transactions(one);
        }
    }

    private static void mutex(CuratorFramework one, CuratorFramework two) throws Exception {
        InterProcessMutex first = new InterProcessMutex(one, "/java/mutex");
        InterProcessMutex second = new InterProcessMutex(two, "/java/mutex");
        check(first.acquire(WAIT_S, TimeUnit.SECONDS), "acquired");
        check(!second.acquire(100, TimeUnit.MILLISECONDS), "refused");
        CountDownLatch acquired = new CountDownLatch(1);
        Thread waiter = new Thread(() -> {
            try {
                second.acquire();
                acquired.countDown();
                second.release();
            } catch (Exception error) {
                error.printStackTrace();
            }
        });
        waiter.start();
        first.release();
        check(acquired.await(WAIT_S, TimeUnit.SECONDS), "passed on");
        waiter.join();
        System.out.println("InterProcessMutex ok");
    }

    private static void readWriteLock(CuratorFramework one, CuratorFramework two) throws Exception {
        InterProcessReadWriteLock first = new InterProcessReadWriteLock(one, "/java/rw");
        InterProcessReadWriteLock second = new InterProcessReadWriteLock(two, "/java/rw");
        check(first.readLock().acquire(WAIT_S, TimeUnit.SECONDS), "reading");
        check(second.readLock().acquire(WAIT_S, TimeUnit.SECONDS), "reading together");
        check(!second.writeLock().acquire(100, TimeUnit.MILLISECONDS), "kept out");
        second.readLock().release();
        first.readLock().release();
        check(second.writeLock().acquire(WAIT_S, TimeUnit.SECONDS), "writing");
        check(!first.readLock().acquire(100, TimeUnit.MILLISECONDS), "kept out by the writer");
        second.writeLock().release();
        System.out.println("InterProcessReadWriteLock ok");
    }

    private static void semaphore(CuratorFramework one, CuratorFramework two) throws Exception {
        InterProcessSemaphoreV2 first = new InterProcessSemaphoreV2(one, "/java/semaphore", 1);
        InterProcessSemaphoreV2 second = new InterProcessSemaphoreV2(two, "/java/semaphore", 1);
        var lease = first.acquire(WAIT_S, TimeUnit.SECONDS);
        check(second.acquire(100, TimeUnit.MILLISECONDS) == null, "full");
        first.returnLease(lease);
        second.returnLease(second.acquire(WAIT_S, TimeUnit.SECONDS));
        System.out.println("InterProcessSemaphoreV2 ok");
    }

    private static void leaderLatch(CuratorFramework one, CuratorFramework two) throws Exception {
        LeaderLatch first = new LeaderLatch(one, "/java/latch", "first");
        LeaderLatch second = new LeaderLatch(two, "/java/latch", "second");
        first.start();
        check(first.await(WAIT_S, TimeUnit.SECONDS), "leading");
        second.start();
        first.close();
        check(second.await(WAIT_S, TimeUnit.SECONDS), "taking over");
        second.close();
        System.out.println("LeaderLatch ok");
    }

    private static void cache(CuratorFramework one, CuratorFramework two) throws Exception {
        two.create().creatingParentContainersIfNeeded().forPath("/java/cache/a", "1".getBytes());
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        // Persistent recursive watches.
        CuratorCache cache = CuratorCache.build(one, "/java/cache");
        cache.listenable().addListener((type, before, after) ->
            seen.add(type + " " + (after != null ? after : before).getPath()));
        cache.start();
        expect(seen, "NODE_CREATED /java/cache/a");
        two.setData().forPath("/java/cache/a", "2".getBytes());
        expect(seen, "NODE_CHANGED /java/cache/a");
        two.create().forPath("/java/cache/a/b");
        expect(seen, "NODE_CREATED /java/cache/a/b");
        two.delete().forPath("/java/cache/a/b");
        expect(seen, "NODE_DELETED /java/cache/a/b");
        cache.close();
        System.out.println("CuratorCache ok");
    }

    private static void expect(BlockingQueue<String> seen, String wanted) throws Exception {
        List<String> others = new ArrayList<>();
        while (true) {
            String next = seen.poll(WAIT_S, TimeUnit.SECONDS);
            check(next != null, "seen: " + wanted + ", but " + others);
            if (next.equals(wanted)) {
                return;
            }
            others.add(next);
        }
    }

    private static void sharedCount(CuratorFramework one, CuratorFramework two) throws Exception {
        try (SharedCount first = new SharedCount(one, "/java/count", 7);
                SharedCount second = new SharedCount(two, "/java/count", 7)) {
            first.start();
            second.start();
            first.setCount(8);
            for (int i = 0; i < WAIT_S * 100 && second.getCount() != 8; i++) {
                Thread.sleep(10);
            }
            check(second.getCount() == 8, "counted");
        }
        System.out.println("SharedCount ok");
    }

    private static void nodes(CuratorFramework one, CuratorFramework two) throws Exception {
        try (GroupMember first = new GroupMember(one, "/java/group", "first");
                GroupMember second = new GroupMember(two, "/java/group", "second");
                PersistentTtlNode ttl = new PersistentTtlNode(one, "/java/ttl", 60000, "x".getBytes())) {
            first.start();
            second.start();
            ttl.start();
            check(ttl.waitForInitialCreate(WAIT_S, TimeUnit.SECONDS), "created with a TTL");
            for (int i = 0; i < WAIT_S * 100 && first.getCurrentMembers().size() != 2; i++) {
                Thread.sleep(10);
            }
            check(first.getCurrentMembers().size() == 2, "a group of two");
        }
        System.out.println("GroupMember and PersistentTtlNode ok");
    }

    private static void transactions(CuratorFramework one) throws Exception {
        one.transaction().forOperations(
            one.transactionOp().create().withMode(CreateMode.PERSISTENT).forPath("/java/tx", "1".getBytes()),
            one.transactionOp().setData().forPath("/java/tx", "2".getBytes()),
            one.transactionOp().check().withVersion(1).forPath("/java/tx"));
        try {
            one.transaction().forOperations(
                one.transactionOp().delete().forPath("/java/tx"),
                one.transactionOp().check().forPath("/java/missing"));
            check(false, "refused");
        } catch (KeeperException.NoNodeException expected) {
            check(new String(one.getData().forPath("/java/tx")).equals("2"), "rolled back");
        }
        System.out.println("transactions ok");
    }
}
