//! The stable codes of the timer's errors.

use delayq_service::Exit;
use delayq_service::codes::Code;

delayq_service::codes! {
    /// Another timer has the lock of single mode.
    LOCKED = Code {
        id: "DQ-T003",
        title: "another timer owns the shards",
        cause: "Without etcd, one timer owns every shard and renews a lock in Redis. This timer waited as \
                long as the lock of a dead timer lasts, and the lock is still being renewed.",
        tries: [
            "Stop the other timer, which the message names.",
            "Configure `[etcd]` to run several timers.",
            "If no other timer should be running, look for one on another host.",
        ],
        exit: Exit::Unavailable,
    };

    /// etcd refuses this timer at the start.
    ETCD = Code {
        id: "DQ-T004",
        title: "etcd cannot be used",
        cause: "A starting timer joins the others through etcd, which refused it or cannot be used as \
                configured. If etcd only does not answer, the timer starts and waits for etcd.",
        tries: [
            "Check `[etcd] username`, password and certificates with etcdctl from this host.",
            "Check that the user may read and write the keys under `[etcd] prefix`.",
            "To run a single timer without etcd, set `[etcd] enabled = false`.",
        ],
        exit: Exit::Unavailable,
    };

    /// Redis's clock jumped.
    CLOCK = Code {
        id: "DQ-T005",
        title: "Redis's clock jumped",
        cause: "The clock of the Redis host jumped by more than `max_clock_step` compared with this host's \
                monotonic clock. Until it is steady again, no message of its shards becomes ready.",
        tries: [
            "Check the time synchronisation of the Redis host.",
            "If Redis failed over, compare the clocks of the two hosts.",
            "Wait: the shards resume after `clock_steady`.",
        ],
        exit: Exit::Unavailable,
    };

    /// A member of the cluster's machinery ended.
    MEMBER = Code {
        id: "DQ-T006",
        title: "the membership ended unexpectedly",
        cause: "A task of this timer's fleet membership returned or panicked. Without that task, the timer \
                would not notice losing a shard, so it exits.",
        tries: [
            "Read the log lines before this one: a panic is logged with its location.",
            "Start the timer again; another timer takes over its shards meanwhile.",
            "Report the bug with the log.",
        ],
        exit: Exit::Bug,
    };

    /// The fleet in etcd belongs to another deployment.
    FOREIGN_FLEET = Code {
        id: "DQ-T007",
        title: "the fleet in etcd belongs to another deployment",
        cause: "The first timer under a prefix and namespace in etcd records the identity of its deployment, \
                and this timer's Redis has another identity: two deployments share an etcd under one name, \
                or redis.url leads to the wrong Redis. This timer stays unready, takes no shards, and \
                checks again every few seconds; other timers are unaffected.",
        tries: [
            "Give the deployments different names in etcd, such as `[etcd] prefix = \"/staging\"`, or different `[deployment] namespace`s.",
            "If this timer belongs to that fleet, correct `redis.url`: the message names its Redis.",
            "If this deployment replaces the recorded one, which is gone for good: delayq init --replace.",
        ],
        exit: Exit::Unavailable,
    };
}
