"""What tests and the demo share: a real ZooKeeper and a fault-injecting proxy. Never imported by the library."""
