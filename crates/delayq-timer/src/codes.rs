//! The stable codes of the timer's errors.

use delayq_service::Exit;
use delayq_service::codes::Code;

delayq_service::codes! {
    /// Another timer has the lock of single mode.
    LOCKED = Code {
        id: "DQ-T003",
        title: "another timer owns the shards",
        cause: "Without etcd one timer owns every shard, by a lock in Redis that it renews. This one waited until the lock of \
                a timer that died would have ended, and the lock is still being renewed.",
        tries: [
            "Stop the other timer, which the message names.",
            "Configure `[etcd]` to run several timers.",
            "If no other timer is meant to run, look for one on another host.",
        ],
        exit: Exit::Unavailable,
    };

    /// etcd refuses this timer at the start.
    ETCD = Code {
        id: "DQ-T004",
        title: "etcd cannot be used",
        cause: "At its start a timer joins the others through etcd, which refused it, or cannot be spoken to as configured. \
                An etcd that only does not answer is waited for while the timer runs.",
        tries: [
            "Check `[etcd] username`, password and certificates with etcdctl from this host.",
            "Check that the user may read and write the keys under `[etcd] prefix`.",
            "Set `[etcd] enabled = false` to run a single timer without it.",
        ],
        exit: Exit::Unavailable,
    };

    /// Redis's clock jumped.
    CLOCK = Code {
        id: "DQ-T005",
        title: "Redis's clock jumped",
        cause: "The clock of the Redis host moved against this host's monotonic clock by more than `max_clock_step`. Its \
                shards are held, nothing becomes ready, until it is steady again.",
        tries: [
            "Look at the time synchronisation of the Redis host.",
            "If Redis failed over, compare the clocks of the two hosts.",
            "Wait: the shards go on by themselves after `clock_steady`.",
        ],
        exit: Exit::Unavailable,
    };

    /// A member of the cluster's machinery ended.
    MEMBER = Code {
        id: "DQ-T006",
        title: "the membership ended unasked",
        cause: "A task that keeps this timer a member of its fleet returned or panicked. Without it the timer would not learn \
                of shards that it loses; it ends.",
        tries: [
            "Read the log lines before this one: a panic is logged with its place.",
            "Start it again; another timer takes its shards meanwhile.",
            "Report it with the log: it is a bug.",
        ],
        exit: Exit::Bug,
    };

    /// The fleet in etcd belongs to another deployment.
    FOREIGN_FLEET = Code {
        id: "DQ-T007",
        title: "the fleet in etcd is that of another deployment",
        cause: "The first timer below a prefix and namespace in etcd records the identity of its deployment, and this timer's Redis keeps \
                another one: two deployments share an etcd under one name, or redis.url leads to the wrong Redis. The timer stays \
                unready, takes no shard, and asks again every few seconds; the other timers are not disturbed.",
        tries: [
            "Give the deployments different names in etcd, such as `[etcd] prefix = \"/staging\"`, or different `[deployment] namespace`s.",
            "Correct `redis.url`, if this timer belongs to that fleet: the message names its Redis.",
            "If the recorded deployment is gone for good, and this one replaces it: delayq init --replace.",
        ],
        exit: Exit::Unavailable,
    };
}
