//! What keeps a program from its Redis: one code for a cause, whichever program meets it.

use super::code::Code;
use crate::exit::Exit;
use delayq::Error;

crate::codes! {
    /// Redis or etcd cannot be reached, or refuses.
    UNREACHABLE = Code {
        id: "DQ-R001",
        title: "a server cannot be used",
        cause: "Redis or etcd is not listening at that address, does not answer in time, closes the connection, \
                or cannot serve yet (LOADING, BUSY, CLUSTERDOWN, TRYAGAIN). The message says which.",
        tries: [
            "Check everything at once: delayq doctor.",
            "See which address is in force, and why: delayq config show.",
            "No server yet? delayq up starts everything on this machine.",
        ],
        exit: Exit::Unavailable,
    };

    /// A shard does not exist.
    NO_DEPLOYMENT = Code {
        id: "DQ-R002",
        title: "this Redis does not hold the deployment",
        cause: "A shard is missing: the deployment is new, the namespace or database is wrong, or this Redis \
                came back without its data. Only delayq init creates shards, because a service that created \
                them would hide the loss.",
        tries: [
            "If the deployment is new, create it: delayq init. If Redis lost its data for good: delayq init \
             --replace, which timers with etcd require.",
            "Compare [redis] and [deployment] in the configuration with what delayq doctor finds.",
            "If this Redis held messages before, stop the timers and restore it from its append-only file.",
        ],
        exit: Exit::Unavailable,
    };

    /// Redis refuses the login, or a command to the user that logged in.
    LOGIN = Code {
        id: "DQ-R003",
        title: "Redis refuses the login or denies a command",
        cause: "The password is missing or wrong, or the user lacks a permission. Nothing was changed.",
        tries: [
            "Set user and password: [redis] username and password, DELAYQ__REDIS__PASSWORD, or \
             redis://user:password@host.",
            "Try the same user with redis-cli: AUTH, then ACL WHOAMI.",
            "Compare the permissions with docs/operations/access.md; delayq doctor names the first missing one.",
        ],
        exit: Exit::Unavailable,
    };

    /// A Redis that answers, and takes no writes.
    NO_WRITES = Code {
        id: "DQ-R004",
        title: "Redis accepts no writes",
        cause: "Redis answers, but refuses writes: its memory limit is reached (OOM), its disk is full or \
                failing (MISCONF), it is a replica (READONLY), or too few replicas are connected (NOREPLICAS). \
                The message has the answer of Redis. Stored messages are intact.",
        tries: [
            "OOM: raise maxmemory, or free memory: delayq topics shows where messages are, delayq purge and dead \
             purge delete them.",
            "MISCONF: free disk space on the Redis host; the log of Redis has the reason.",
            "READONLY or NOREPLICAS: find out which node is the master, and bring its replicas back.",
        ],
        exit: Exit::Unavailable,
    };

    /// A Redis that would lose messages, or cannot run the scripts.
    SERVER_UNFIT = Code {
        id: "DQ-R005",
        title: "this Redis must not be used",
        cause: "This Redis evicts keys and so would lose messages, is too old, is a replica or a cluster node \
                under a plain URL, cannot provide the requested durability, or denies a command that delayq \
                needs. The message says which. Nothing was changed.",
        tries: [
            "Change the setting that the message names; delayq doctor lists every unsuitable one.",
            "Grant the user its permissions: delayq acl print.",
            "Configure a suitable server: docs/operations.md has the requirements and the forms of URLs.",
        ],
        exit: Exit::Unavailable,
    };

    /// A write whose replicas or disk did not confirm it.
    UNCONFIRMED = Code {
        id: "DQ-R006",
        title: "a write is not confirmed",
        cause: "The topic requires that replicas or the disk confirm each write, and they did not in time. The \
                write may have been applied; repeating it is safe.",
        tries: [
            "See which replicas are connected and how far behind: delayq doctor.",
            "Repeat the command; repeat a put with the same --id.",
            "Require less: delayq topic set TOPIC --durability memory.",
        ],
        exit: Exit::Unavailable,
    };

    /// A body that nothing here can restore.
    BODY_UNREADABLE = Code {
        id: "DQ-R007",
        title: "a payload cannot be read",
        cause: "The payload is compressed by a codec or with a dictionary that this delayq does not have, or its \
                bytes are damaged. The message itself is intact.",
        tries: [
            "Use the delayq version that wrote it, or a later one.",
            "See all such messages: delayq audit --bodies.",
            "See the message without its payload: delayq list TOPIC.",
        ],
        exit: Exit::Refused,
    };

    /// Redis or a library gave an impossible answer.
    BUG = Code {
        id: "DQ-R008",
        title: "an invalid reply",
        cause: "The versions do not match, delayq's keys were written to by hand, or delayq has a bug.",
        tries: [
            "Compare the versions: delayq --version here and /version of the timers' admin endpoints.",
            "Check the stored messages: delayq audit.",
            "Report it with the command and this output.",
        ],
        exit: Exit::Bug,
    };

    /// The deployment is there, and is not the configured one.
    OTHER_DEPLOYMENT = Code {
        id: "DQ-R009",
        title: "the deployment is not as configured",
        cause: "The shards in this Redis record another shard count, another node, or a layout unknown to this \
                process. The message says which. Nothing was changed.",
        tries: [
            "Compare [redis] and [deployment] in the configuration with what delayq doctor finds.",
            "After a growth or a move, give this process the configuration of the others.",
            "See where each shard is: delayq shards.",
        ],
        exit: Exit::Unavailable,
    };

    /// A Redis that takes no more clients.
    TOO_MANY_CLIENTS = Code {
        id: "DQ-R010",
        title: "Redis accepts no more clients",
        cause: "Redis has reached its `maxclients` limit and closes each new connection. Nothing was changed.",
        tries: [
            "See which programs hold the connections, by address, from an open connection: redis-cli CLIENT LIST.",
            "Raise the limit: CONFIG SET maxclients N, and the open-file limit of the Redis process.",
            "Use one client per process, not one per request: docs/operations/sizing.md counts the connections \
             of each program.",
        ],
        exit: Exit::Unavailable,
    };

    /// A Redis keeps another deployment.
    FOREIGN = Code {
        id: "DQ-R011",
        title: "this Redis keeps another deployment",
        cause: "A shard records the identity of another deployment with the same namespace and shard numbers: \
                the URL, or its host name, leads to the wrong Redis. Nothing was changed.",
        tries: [
            "See which Redis keeps which deployment: redis-cli HGET '{dq:0}:meta' identity, on each Redis.",
            "Correct redis.url or [[redis.nodes]], or the host name that leads to the wrong Redis.",
            "If the deployment was lost and created again, restart the process: the new deployment has a new \
             identity.",
        ],
        exit: Exit::Unavailable,
    };

    /// Another program wrote one of delayq's keys.
    WRONG_KEY = Code {
        id: "DQ-R012",
        title: "a key has another type",
        cause: "Another program, or a command by hand, wrote a key of delayq. The call stopped there, and may be \
                carried out in part; repeating it is safe. Nothing is lost.",
        tries: [
            "Find the key: delayq audit. If the audit stops as well, the key is the shard's meta.",
            "Restore the key from a backup, or delete it with redis-cli DEL; then repeat the command.",
            "Mend what the key's loss left behind: delayq repair.",
        ],
        exit: Exit::Refused,
    };
}

/// The code of a cause; `None` for what the caller asked wrongly.
#[must_use]
pub fn cause_of(error: &Error) -> Option<&'static Code> {
    Some(match error {
        Error::Unreachable { .. } | Error::NoAnswer { .. } => &UNREACHABLE,
        Error::TooManyClients { .. } => &TOO_MANY_CLIENTS,
        Error::Uninitialised(_) => &NO_DEPLOYMENT,
        Error::Layout { .. } | Error::Deployment(_) => &OTHER_DEPLOYMENT,
        Error::Foreign { .. } => &FOREIGN,
        Error::Unfit(_) => &SERVER_UNFIT,
        Error::Unconfirmed { .. } | Error::Durability(_) => &UNCONFIRMED,
        Error::Codec(_) => &BODY_UNREADABLE,
        Error::Protocol { .. } | Error::Closed => &BUG,
        Error::Redis { code, .. } => return of_word(code),
        _ => return None,
    })
}

/// Of Redis's answer.
fn of_word(word: &str) -> Option<&'static Code> {
    Some(match word {
        "NOAUTH" | "WRONGPASS" | "NOPERM" => &LOGIN,
        "OOM" | "MISCONF" | "READONLY" | "NOREPLICAS" => &NO_WRITES,
        "WRONGTYPE" => &WRONG_KEY,
        "NOSCRIPT" => &BUG,
        // A script refused a value before it changed anything.
        "DQARG" => return None,
        _ => &UNREACHABLE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_refuses_is_not_explained_as_an_unreachable_server() {
        for (words, code) in [
            (&["OOM", "MISCONF", "READONLY", "NOREPLICAS"][..], Some(&NO_WRITES)),
            (&["NOAUTH", "WRONGPASS", "NOPERM"], Some(&LOGIN)),
            (&["WRONGTYPE"], Some(&WRONG_KEY)),
            (&["NOSCRIPT"], Some(&BUG)),
            (&["LOADING", "CLUSTERDOWN"], Some(&UNREACHABLE)),
            (&["DQARG"], None),
        ] {
            for &word in words {
                let error = Error::Redis { code: word.to_owned(), detail: "detail".to_owned() };
                assert_eq!(cause_of(&error), code, "{word}");
            }
        }
    }
}
