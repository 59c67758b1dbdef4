//! What keeps a program from its Redis: one code for a cause, whichever program meets it.

use super::code::Code;
use crate::exit::Exit;
use delayq::Error;

/// Redis or etcd cannot be reached, or refuses.
pub const UNREACHABLE: Code = Code {
    id: "DQ-R001",
    title: "a server cannot be used",
    cause: "Redis or etcd does not listen at that address, does not answer in time, ends the connection, or cannot serve yet (LOADING, \
            BUSY, CLUSTERDOWN, TRYAGAIN); the message says which.",
    tries: [
        "Check everything at once: delayq doctor.",
        "See which address is in force, and why: delayq config show.",
        "No server yet? delayq up starts everything on this machine.",
    ],
    exit: Exit::Unavailable,
};

/// A shard does not exist.
pub const NO_DEPLOYMENT: Code = Code {
    id: "DQ-R002",
    title: "this Redis does not hold the deployment",
    cause: "A shard is missing: the deployment is new, the namespace or the database is another one, or this Redis came back \
            without its data. Only delayq init creates shards: a service that did would hide the loss.",
    tries: [
        "Create it, if it is new: delayq init. If Redis lost its data for good: delayq init --replace, for which timers with etcd wait.",
        "Compare [redis] and [deployment] in the configuration with what delayq doctor finds.",
        "If it held messages before, stop the timers and restore Redis from its append-only file.",
    ],
    exit: Exit::Unavailable,
};

/// Redis refuses the login, or a command to the user that logged in.
pub const LOGIN: Code = Code {
    id: "DQ-R003",
    title: "Redis refuses the login or denies a command",
    cause: "The password is missing or wrong, or the user lacks a permission. Nothing was changed.",
    tries: [
        "Give user and password: [redis] username and password, DELAYQ__REDIS__PASSWORD, or redis://user:password@host.",
        "Try the same user with redis-cli: AUTH, then ACL WHOAMI.",
        "Compare the permissions with docs/operations/access.md; delayq doctor names the first that is missing.",
    ],
    exit: Exit::Unavailable,
};

/// A Redis that answers, and takes no writes.
pub const NO_WRITES: Code = Code {
    id: "DQ-R004",
    title: "Redis takes no writes",
    cause: "Redis answers and refuses to store: its memory limit is reached (OOM), its own disk is full or failing (MISCONF), it is a \
            replica (READONLY), or too few replicas are connected (NOREPLICAS). The message has its answer. Stored messages \
            are intact.",
    tries: [
        "OOM: raise maxmemory, or make room: delayq topics shows where messages are, delayq purge and dead purge delete some.",
        "MISCONF: make room on the disk of the Redis host; its log has the reason.",
        "READONLY or NOREPLICAS: see which node is the master, and bring its replicas back.",
    ],
    exit: Exit::Unavailable,
};

/// A Redis that would lose messages, or cannot run the scripts.
pub const SERVER_UNFIT: Code = Code {
    id: "DQ-R005",
    title: "this Redis must not be used",
    cause: "It would lose messages (it evicts keys), is too old, is a replica or a node of a cluster under a plain URL, cannot give the durability \
            that is asked for, or denies a command that delayq needs; the message says which. Nothing was changed.",
    tries: [
        "Change the setting that the message names; delayq doctor names every unsuitable one.",
        "Give the user its permissions: delayq acl print.",
        "Name the right server: docs/operations.md has the requirements and the forms of URLs.",
    ],
    exit: Exit::Unavailable,
};

/// A write whose replicas or disk did not confirm it.
pub const UNCONFIRMED: Code = Code {
    id: "DQ-R006",
    title: "a write is not confirmed",
    cause: "Its topic asks that replicas or a disk confirm each write, and they did not in time. The write may be in force; repeating it \
            is safe.",
    tries: [
        "See which replicas are connected, and how far they are: delayq doctor.",
        "Repeat the command, a put with the same --id.",
        "Ask for less: delayq topic set TOPIC --durability memory.",
    ],
    exit: Exit::Unavailable,
};

/// A body that nothing here can restore.
pub const BODY_UNREADABLE: Code = Code {
    id: "DQ-R007",
    title: "a payload cannot be read",
    cause: "The message is compressed by a codec or with a dictionary that this delayq does not have, or its bytes are damaged. The \
            message itself is in its place.",
    tries: [
        "Use the delayq that wrote it, or a later one.",
        "See all such messages: delayq audit --bodies.",
        "See the message without its payload: delayq list TOPIC.",
    ],
    exit: Exit::Refused,
};

/// Redis or a library gave an impossible answer.
pub const BUG: Code = Code {
    id: "DQ-R008",
    title: "an impossible answer",
    cause: "Versions that do not match, a write to delayq's keys by hand, or a bug.",
    tries: [
        "Compare the versions: delayq --version here and /version of the timers' admin endpoints.",
        "Check the books: delayq audit.",
        "Report it with the command and this output.",
    ],
    exit: Exit::Bug,
};

/// The deployment is there, and is not the configured one.
pub const OTHER_DEPLOYMENT: Code = Code {
    id: "DQ-R009",
    title: "the deployment is not as configured",
    cause: "The shards in this Redis record another number of shards, another node, or a layout that this process cannot follow; the \
            message says which. Nothing was changed.",
    tries: [
        "Compare [redis] and [deployment] in the configuration with what delayq doctor finds.",
        "After a growth or a move, give this process the configuration of the others.",
        "See which shard is where: delayq shards.",
    ],
    exit: Exit::Unavailable,
};

/// A Redis that takes no more clients.
pub const TOO_MANY_CLIENTS: Code = Code {
    id: "DQ-R010",
    title: "Redis takes no more clients",
    cause: "Redis has as many clients as its `maxclients` allows, and ends each new connection. Nothing was changed.",
    tries: [
        "See who holds the connections, through one that is open: redis-cli CLIENT LIST; the addresses tell the programs.",
        "Raise it: CONFIG SET maxclients N, and the limit of open files of Redis's process.",
        "Have one client a process, not one a request: docs/operations/sizing.md counts the connections of each program.",
    ],
    exit: Exit::Unavailable,
};

/// A Redis keeps another deployment.
pub const FOREIGN: Code = Code {
    id: "DQ-R011",
    title: "this Redis keeps another deployment",
    cause: "A shard records another identity than the deployment that this process serves, though both have the same name and numbers: \
            the URL, or the name behind it, leads to the Redis of another deployment. Nothing was changed.",
    tries: [
        "See which Redis keeps which deployment: redis-cli HGET '{dq:0}:meta' identity, at each of them.",
        "Correct redis.url or [[redis.nodes]], or the name that leads to the wrong host.",
        "If the deployment was lost and created again, restart the process: it has another identity now.",
    ],
    exit: Exit::Unavailable,
};

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
        "DQTYPE" | "WRONGTYPE" | "NOSCRIPT" => &BUG,
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
            (&["DQTYPE", "WRONGTYPE", "NOSCRIPT"], Some(&BUG)),
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
