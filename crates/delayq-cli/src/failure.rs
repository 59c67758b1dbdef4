//! The errors of the command line, each with a stable code, things to try, and an exit code.

use delayq::Error;
use delayq_service::codes::Code;
use delayq_service::codes::redis::cause_of;
pub use delayq_service::codes::redis::{BUG, NO_DEPLOYMENT, SERVER_UNFIT, UNREACHABLE};
use delayq_service::{Exit, Fault};
use std::fmt::Display;

/// An argument is invalid.
pub const USAGE: Code = Code {
    id: "DQ-U001",
    title: "an argument is invalid",
    cause: "An argument breaks a limit, or two of them contradict each other. Nothing was changed.",
    tries: [
        "Use a value that the message says is accepted.",
        "See the options of the command: add --help to it.",
        "See the forms of times, ids and payloads: docs/cli.md.",
    ],
    exit: Exit::Usage,
};

/// A program is not installed.
pub const PROGRAM_MISSING: Code = Code {
    id: "DQ-U004",
    title: "a program is not installed",
    cause: "`delayq up` starts a redis-server and an etcd, `delayq work` the given command; each is found through PATH.",
    tries: [
        "On Debian, for delayq up: apt-get install redis-server etcd-server.",
        "Leave etcd out: delayq up --no-etcd.",
        "Use servers that run already: --redis URL, or a configuration file.",
    ],
    exit: Exit::Unavailable,
};

/// A file cannot be read or written.
pub const FILE: Code = Code {
    id: "DQ-U005",
    title: "a file cannot be used",
    cause: "A file, a folder or the spool in it does not exist, may not be read or written by this user, is in use or damaged, or the disk \
            is full; the message says which.",
    tries: [
        "Check the path; it is relative to the folder that the command runs in.",
        "Check owner and mode of the file and of the folders above it, and the free space.",
        "Choose another folder with --data.",
    ],
    exit: Exit::Unavailable,
};

/// Lines of an input were refused.
pub const LINES_REFUSED: Code = Code {
    id: "DQ-U006",
    title: "some lines were refused",
    cause: "The lines named above are not messages, or break a limit. The others were put.",
    tries: [
        "Correct the lines that are named and put them alone.",
        "Put the whole file again: messages with ids of their own are recognised, not stored twice.",
        "Stop at the first bad line next time: --strict.",
    ],
    exit: Exit::Refused,
};

/// The books do not balance.
pub const UNBALANCED: Code = Code {
    id: "DQ-U007",
    title: "the books do not balance",
    cause: "What was accepted is not what was delivered, cancelled, expired, dead, purged, replaced and pending together; \
            or a message's body cannot be reached. That is a bug, or somebody wrote to Redis by hand.",
    tries: [
        "Run it again when no message moves: shards are not read at the same instant.",
        "See whether Redis lost data: its log, its last restart, its eviction policy (delayq doctor).",
        "Report it with this output and the logs of the timers and forwarders.",
    ],
    exit: Exit::Bug,
};

/// A check failed.
pub const UNFIT: Code = Code {
    id: "DQ-U008",
    title: "a check failed",
    cause: "The table names it, and how to fix it.",
    tries: [
        "Do what the last column of the table says.",
        "Check again: delayq doctor.",
        "See the settings in force: delayq config show.",
    ],
    exit: Exit::Unavailable,
};

/// Another process uses the data folder.
pub const FOLDER_IN_USE: Code = Code {
    id: "DQ-U009",
    title: "another process uses the data folder",
    cause: "Two processes on one folder would start two servers on one set of files.",
    tries: [
        "Use the running one: its configuration is delayq.toml in the folder.",
        "Stop it with Ctrl-C, or by its process id.",
        "Choose another folder with --data.",
    ],
    exit: Exit::Unavailable,
};

/// The command names something that does not exist.
pub const UNKNOWN: Code = Code {
    id: "DQ-U012",
    title: "what the command names does not exist",
    cause: "There is no such topic, message, dead letter, record or timer: it never existed, it is finished and forgotten, or its name \
            is misspelt.",
    tries: [
        "List what exists: delayq topics, delayq list TOPIC.",
        "An own id is another message in each group: give its --group.",
        "Is it the right deployment? delayq config show.",
    ],
    exit: Exit::NotFound,
};

/// The state of a message forbids the command.
pub const REFUSED: Code = Code {
    id: "DQ-U013",
    title: "a message refuses the change",
    cause: "A message has that id already, or it is leased, dead or finished, or another change of its group is not finished; the output \
            says which.",
    tries: [
        "See the message as it is now, and what happened to it: delayq get TOPIC ID, delayq log TOPIC ID.",
        "A put whose id is taken: give another id, or replace the message: delayq put --replace.",
        "A leased message: wait until its consumer has settled it, or its lease has ended.",
    ],
    exit: Exit::Refused,
};

/// The user interrupted the command.
pub const INTERRUPTED: Code = Code {
    id: "DQ-U015",
    title: "interrupted before the end",
    cause: "Ctrl-C came before everything was done. With put and restore, everything read until then is put, and the message \
            names the first line that is not; with backup, everything read until then is in the file.",
    tries: [
        "Put the rest: tail -n +LINE FILE | delayq put TOPIC --from -, or delayq restore --from-line LINE.",
        "Put the whole file again: messages with ids of their own are recognised, not stored twice.",
        "Continue a backup: delayq backup FILE --resume.",
    ],
    exit: Exit::DrainDeadline,
};

/// The user did not confirm a command that cannot be undone.
pub const NOT_CONFIRMED: Code = Code {
    id: "DQ-U016",
    title: "not confirmed",
    cause: "The command cannot be undone, so it asks first. Nothing was changed.",
    tries: [
        "Answer y when it asks.",
        "Confirm in advance, in scripts: --yes.",
        "See what would be affected: delayq list TOPIC, delayq shards.",
    ],
    exit: Exit::Usage,
};

/// A backup lacks messages that could not be read.
pub const BACKUP_INCOMPLETE: Code = Code {
    id: "DQ-U017",
    title: "some messages are not in the backup",
    cause: "What is named above has a later format, is damaged, lacks its dictionary, or has a name outside the rules. Everything else is in it.",
    tries: [
        "Use the delayq that wrote them, or a later one.",
        "See what is wrong with them: delayq audit --bodies.",
        "See one: delayq get TOPIC ID.",
    ],
    exit: Exit::Refused,
};

/// A backup cannot be used as asked.
pub const BACKUP_UNUSABLE: Code = Code {
    id: "DQ-U018",
    title: "the backup cannot be used this way",
    cause: "It was interrupted and is incomplete; or it cannot be continued, because it is complete or of another deployment.",
    tries: [
        "Continue one that was interrupted: delayq backup FILE --resume.",
        "Start over: delayq backup FILE --overwrite.",
        "Restore what it has: delayq restore FILE does so, and says that it is incomplete.",
    ],
    exit: Exit::Refused,
};

/// The timers form no fleet.
pub const NO_FLEET: Code = Code {
    id: "DQ-U019",
    title: "there is no fleet of timers",
    cause: "Without etcd a single timer owns every shard: no other timer can take them over.",
    tries: [
        "Stop the timer and start its successor at once: it waits for the lock, for at most [timer] lock.",
        "Use etcd, and several timers: [etcd] enabled = true and endpoints.",
        "See which configuration is in force: delayq config show.",
    ],
    exit: Exit::Config,
};

/// No other timer could take the shards.
pub const NOBODY_LEFT: Code = Code {
    id: "DQ-U020",
    title: "no other timer could take the shards",
    cause: "There is no other timer, or each is drained, is stopping or cannot reach its Redis. Nothing was changed.",
    tries: [
        "Start another timer, or undrain one: delayq timers undrain NAME.",
        "See what hinders the others: delayq timers, delayq doctor.",
        "Drain it anyway: --force. Messages that become due then wait, for 10 s or more, until a timer rescues them.",
    ],
    exit: Exit::Refused,
};

/// A drained timer kept shards for too long.
pub const DRAIN_UNFINISHED: Code = Code {
    id: "DQ-U021",
    title: "the timer is drained, but its shards are not handed over yet",
    cause: "The shards did not move within --deadline. The drain stays in force, and they move as soon as they can.",
    tries: [
        "See who holds what: delayq timers.",
        "See the logs of the timer and of the leader: both have to reach etcd, and the timer its Redis.",
        "A leader of an earlier version does not know drains: upgrade the timers, the leader included.",
    ],
    exit: Exit::DrainDeadline,
};

/// A topic to delete still holds messages.
pub const TOPIC_KEPT: Code = Code {
    id: "DQ-U023",
    title: "the topic is not deleted",
    cause: "A shard holds messages of it: delayed, ready, leased or dead; or it is being created right now. The message says which. Nothing \
            was changed.",
    tries: [
        "See what it holds: delayq topic show TOPIC.",
        "Delete its messages and dead letters: delayq purge TOPIC, delayq dead purge TOPIC.",
        "Stop its producers, wait for what is leased, and run it again.",
    ],
    exit: Exit::Refused,
};

/// Some dead letters were not replayed.
pub const NOT_REPLAYED: Code = Code {
    id: "DQ-U024",
    title: "some dead letters were not replayed",
    cause: "A dead letter that would have expired by its new due time, or is damaged or of a later format, stays dead; the output counts \
            them by reason. The others were replayed.",
    tries: [
        "See the dead letters: delayq dead list TOPIC --reason WORDS.",
        "Put them again under other ids: delayq get TOPIC ID --payload has the payload.",
        "Delete those that nobody needs: delayq dead purge TOPIC.",
    ],
    exit: Exit::Refused,
};

/// Some records or rows cannot be read.
pub const RECORDS_UNREADABLE: Code = Code {
    id: "DQ-U025",
    title: "some records cannot be read",
    cause: "Records of the spool, or rows of the outbox, are damaged or of a later version. All others are in the output.",
    tries: [
        "Read them with the delayq that wrote them, or a later one.",
        "See what is set aside, and why: delayq spool rejected, delayq outbox rejected.",
        "Put what is missing again from where it came from: messages with ids of their own are recognised.",
    ],
    exit: Exit::Refused,
};

/// The shards cannot be added or moved as asked.
pub const SHARDS_REFUSED: Code = Code {
    id: "DQ-U026",
    title: "the shards cannot be added or moved so",
    cause: "The shard count only grows, one growth or move at a time; shards move between nodes of [[redis.nodes]], to one that \
            replicates the other. The message says what is missing.",
    tries: [
        "See the shards, and what is half done: delayq shards.",
        "Finish an earlier growth or move first: repeat its command.",
        "Read how to prepare it: docs/guides/scaling.md, docs/operations.md.",
    ],
    exit: Exit::Refused,
};

/// Some shards do not answer.
pub const PARTIAL: Code = Code {
    id: "DQ-U030",
    title: "a part of the answer is missing",
    cause: "Some shards cannot be asked: their server is down, refuses this client or came back empty, or they are moving to another one. The \
            message names them. What was printed is of all others.",
    tries: [
        "See what is wrong with each server: delayq doctor.",
        "A move that is half done: repeat delayq shards move, or take it back with --back.",
        "Run it again once the server answers; until then no count is of the whole deployment.",
    ],
    exit: Exit::Partial,
};

/// Every code of the command line, in the order of the documentation.
pub const TABLE: &[&Code] = &[
    &USAGE,
    &PROGRAM_MISSING,
    &FILE,
    &LINES_REFUSED,
    &UNBALANCED,
    &UNFIT,
    &FOLDER_IN_USE,
    &UNKNOWN,
    &REFUSED,
    &INTERRUPTED,
    &NOT_CONFIRMED,
    &BACKUP_INCOMPLETE,
    &BACKUP_UNUSABLE,
    &NO_FLEET,
    &NOBODY_LEFT,
    &DRAIN_UNFINISHED,
    &TOPIC_KEPT,
    &NOT_REPLAYED,
    &RECORDS_UNREADABLE,
    &SHARDS_REFUSED,
    &PARTIAL,
];

/// The fault for invalid arguments.
pub fn usage(message: impl Display) -> Fault {
    Fault::new(&USAGE, message.to_string())
}

/// The fault for something that does not exist.
pub fn unknown(message: impl Display) -> Fault {
    Fault::new(&UNKNOWN, message.to_string())
}

/// The fault for a change that the stored state forbids.
pub fn refused(message: impl Display) -> Fault {
    Fault::new(&REFUSED, message.to_string())
}

/// The fault for a file that could not be used.
pub fn file(path: &std::path::Path, doing: &str, error: std::io::Error) -> Fault {
    Fault::new(&FILE, format!("cannot {doing} {}", path.display())).because(error)
}

/// Turns an error of core into a fault for operators.
#[allow(clippy::needless_pass_by_value, reason = "made for map_err")]
pub fn of_core(error: Error) -> Fault {
    Fault::new(code_of(&error), error.to_string())
}

fn code_of(error: &Error) -> &'static Code {
    cause_of(error).unwrap_or(match error {
        Error::Growth(_) | Error::Move(_) => &SHARDS_REFUSED,
        Error::Walk(_) => &BACKUP_UNUSABLE,
        Error::Spool { .. } => &FILE,
        _ => &USAGE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_rise_and_are_given_once() {
        assert!(TABLE.is_sorted_by(|one, next| one.id < next.id));
        assert!(
            TABLE.iter().all(|code| code.id.strip_prefix("DQ-U").is_some_and(|number| number.len() == 3))
        );
    }
}
