//! The errors of the command line, each with a stable code, things to try, and an exit code.

use delayq::Error;
use delayq_service::codes::Code;
use delayq_service::codes::redis::cause_of;
pub use delayq_service::codes::redis::{BUG, NO_DEPLOYMENT, SERVER_UNFIT, UNREACHABLE};
use delayq_service::{Exit, Fault};
use std::fmt::Display;

delayq_service::codes! {
    /// An argument is invalid.
    USAGE = Code {
        id: "DQ-U001",
        title: "an argument is invalid",
        cause: "An argument breaks a limit, or two arguments contradict each other. Nothing was changed.",
        tries: [
            "Use one of the values that the message accepts.",
            "See the command's options: --help.",
            "See how to write times, ids and payloads: docs/cli.md.",
        ],
        exit: Exit::Usage,
    };

    /// A program is not installed.
    PROGRAM_MISSING = Code {
        id: "DQ-U004",
        title: "a program is not installed",
        cause: "`delayq up` starts a redis-server and an etcd, `delayq work` the given command; each is found through PATH.",
        tries: [
            "On Debian, for delayq up: apt-get install redis-server etcd-server.",
            "Run without etcd: delayq up --no-etcd.",
            "Use running servers: --redis URL, or a configuration file.",
        ],
        exit: Exit::Unavailable,
    };

    /// A file cannot be read or written.
    FILE = Code {
        id: "DQ-U005",
        title: "a file cannot be used",
        cause: "A file, a folder or the spool in it does not exist, may not be read or written by this user, is in use or damaged, or the disk \
                is full; the message says which.",
        tries: [
            "Check the path, which is relative to the working directory.",
            "Check the free space, and the owner and mode of the file and its parent folders.",
            "Choose another folder with --data.",
        ],
        exit: Exit::Unavailable,
    };

    /// Lines of an input were refused.
    LINES_REFUSED = Code {
        id: "DQ-U006",
        title: "some lines were refused",
        cause: "The lines named above are not valid messages, or break a limit. All other lines were put.",
        tries: [
            "Correct the named lines and put only those.",
            "Put the whole file again: a message with its own id is not stored twice.",
            "To stop at the first bad line: --strict.",
        ],
        exit: Exit::Refused,
    };

    /// The books do not balance.
    UNBALANCED = Code {
        id: "DQ-U007",
        title: "the books do not balance",
        cause: "The number of accepted messages differs from the sum of delivered, cancelled, expired, dead, \
                purged, replaced and pending; or a message's body is missing. The cause is a bug, or a manual \
                write to Redis.",
        tries: [
            "Run it again while no message moves: shards are not read at the same instant.",
            "Check whether Redis lost data: its log, last restart and eviction policy (delayq doctor).",
            "Report a bug with this output and the logs of the timers and forwarders.",
        ],
        exit: Exit::Bug,
    };

    /// A check failed.
    UNFIT = Code {
        id: "DQ-U008",
        title: "a check failed",
        cause: "The table names the check and the fix.",
        tries: [
            "Follow the last column of the table.",
            "Check again: delayq doctor.",
            "See the settings in force: delayq config show.",
        ],
        exit: Exit::Unavailable,
    };

    /// Another process uses the data folder.
    FOLDER_IN_USE = Code {
        id: "DQ-U009",
        title: "another process uses the data folder",
        cause: "Two processes on one folder would start two servers on one set of files.",
        tries: [
            "Use the running process: its configuration is delayq.toml in the folder.",
            "Stop the running process: Ctrl-C, or kill its process id.",
            "Choose another folder with --data.",
        ],
        exit: Exit::Unavailable,
    };

    /// The command names something that does not exist.
    UNKNOWN = Code {
        id: "DQ-U012",
        title: "what the command names does not exist",
        cause: "No such topic, message, dead letter, record or timer: it never existed, has finished and been \
                forgotten, or the name is misspelt.",
        tries: [
            "List what exists: delayq topics, delayq list TOPIC.",
            "Each group has its own ids: give the message's --group.",
            "Check that this is the right deployment: delayq config show.",
        ],
        exit: Exit::NotFound,
    };

    /// The state of a message forbids the command.
    REFUSED = Code {
        id: "DQ-U013",
        title: "a message refuses the change",
        cause: "The id is already taken; or the message is leased, dead or finished, or not as expected; or another \
                change of its group is unfinished. The output says which.",
        tries: [
            "See the message and its history: delayq get TOPIC ID, delayq log TOPIC ID.",
            "If the id of a put is taken: choose another id, or replace the message with delayq put --replace.",
            "If the message is leased: wait until its consumer settles it, or its lease ends.",
        ],
        exit: Exit::Refused,
    };

    /// The user interrupted the command.
    INTERRUPTED = Code {
        id: "DQ-U015",
        title: "interrupted before the end",
        cause: "The command was interrupted by Ctrl-C. put and restore have stored everything before the line \
                that the message names; backup has written everything it had read.",
        tries: [
            "Put the remaining lines: tail -n +LINE FILE | delayq put TOPIC --from -, or delayq restore \
             --from-line LINE.",
            "Put the whole file again: a message with its own id is not stored twice.",
            "Continue the backup: delayq backup FILE --resume.",
        ],
        exit: Exit::DrainDeadline,
    };

    /// The user did not confirm a command that cannot be undone.
    NOT_CONFIRMED = Code {
        id: "DQ-U016",
        title: "not confirmed",
        cause: "The command cannot be undone, so it asks for confirmation. Nothing was changed.",
        tries: [
            "Answer y at the prompt.",
            "In scripts, confirm in advance: --yes.",
            "See what would be affected: delayq list TOPIC, delayq shards.",
        ],
        exit: Exit::Usage,
    };

    /// A backup lacks messages that could not be read.
    BACKUP_INCOMPLETE = Code {
        id: "DQ-U017",
        title: "some messages are not in the backup",
        cause: "The messages named above have a later format, are damaged, lack their dictionary, or have names \
                that break the rules. All other messages are in the backup.",
        tries: [
            "Use the delayq version that wrote them, or a later one.",
            "See the cause: delayq audit --bodies.",
            "See one message: delayq get TOPIC ID.",
        ],
        exit: Exit::Refused,
    };

    /// A backup cannot be used as asked.
    BACKUP_UNUSABLE = Code {
        id: "DQ-U018",
        title: "the backup cannot be used",
        cause: "The backup is incomplete because it was interrupted; or it cannot be resumed because it is \
                complete or of another deployment.",
        tries: [
            "Resume an interrupted backup: delayq backup FILE --resume.",
            "Start over: delayq backup FILE --overwrite.",
            "Restore an incomplete backup anyway: delayq restore FILE restores what it contains and says so.",
        ],
        exit: Exit::Refused,
    };

    /// The timers form no fleet.
    NO_FLEET = Code {
        id: "DQ-U019",
        title: "no fleet of timers",
        cause: "Without etcd, a single timer owns every shard, and no other timer can take over.",
        tries: [
            "Stop the timer and start its successor at once: it waits for the lock, for at most [timer] lock.",
            "Use etcd and several timers: set [etcd] enabled = true and endpoints.",
            "See the settings in force: delayq config show.",
        ],
        exit: Exit::Config,
    };

    /// No other timer could take the shards.
    NOBODY_LEFT = Code {
        id: "DQ-U020",
        title: "no other timer can take the shards",
        cause: "There is no other timer, or every other timer is drained, stopping, or cannot reach its Redis. \
                Nothing was changed.",
        tries: [
            "Start another timer, or undrain one: delayq timers undrain NAME.",
            "See the state of the other timers: delayq timers, delayq doctor.",
            "Drain it anyway: --force. Messages that become due then wait, 10 s or more, until a timer takes \
             over.",
        ],
        exit: Exit::Refused,
    };

    /// A drained timer kept shards for too long.
    DRAIN_UNFINISHED = Code {
        id: "DQ-U021",
        title: "the timer is drained, but its shards are not yet handed over",
        cause: "The shards did not move within --deadline. The drain stays in force, and the shards move as soon \
                as possible.",
        tries: [
            "See which timer holds which shard: delayq timers.",
            "See the logs of the timer and the leader: both must reach etcd, and the timer its Redis.",
            "Upgrade all timers: a leader of an earlier version ignores drains.",
        ],
        exit: Exit::DrainDeadline,
    };

    /// A topic to delete still holds messages.
    TOPIC_KEPT = Code {
        id: "DQ-U023",
        title: "the topic is not deleted",
        cause: "A shard still holds messages of the topic (delayed, ready, leased or dead), or the topic is \
                being created. The message says which. Nothing was changed.",
        tries: [
            "See the remaining messages: delayq topic show TOPIC.",
            "Delete its messages and dead letters: delayq purge TOPIC, delayq dead purge TOPIC.",
            "Stop the topic's producers, wait until no message is leased, and run the command again.",
        ],
        exit: Exit::Refused,
    };

    /// Some dead letters were not replayed.
    NOT_REPLAYED = Code {
        id: "DQ-U024",
        title: "some dead letters were not replayed",
        cause: "A dead letter stays dead if it would have expired by its new due time, is damaged, or has a \
                later format. The output counts the reasons. All others were replayed.",
        tries: [
            "See the dead letters: delayq dead list TOPIC --reason WORDS.",
            "Put them again under other ids: delayq get TOPIC ID --payload prints the payload.",
            "Delete the ones no longer needed: delayq dead purge TOPIC.",
        ],
        exit: Exit::Refused,
    };

    /// Some records or rows cannot be read.
    RECORDS_UNREADABLE = Code {
        id: "DQ-U025",
        title: "some records cannot be read",
        cause: "Records of the spool, or rows of the outbox, are damaged or have a later version. The output has \
                all others.",
        tries: [
            "Read them with the delayq version that wrote them, or a later one.",
            "See which are set aside, and why: delayq spool rejected, delayq outbox rejected.",
            "Put the missing messages again from their source: a message with its own id is not stored twice.",
        ],
        exit: Exit::Refused,
    };

    /// The shards cannot be added or moved as asked.
    SHARDS_REFUSED = Code {
        id: "DQ-U026",
        title: "the shards cannot be added or moved",
        cause: "The shard count can only grow, by one growth or move at a time. Shards move between nodes of \
                [[redis.nodes]], from a node to its replica. The message names the missing condition.",
        tries: [
            "See the shards and any unfinished change: delayq shards.",
            "Finish an interrupted growth or move first: repeat its command.",
            "Read how to prepare: docs/guides/scaling.md, docs/operations.md.",
        ],
        exit: Exit::Refused,
    };

    /// Some shards do not answer.
    PARTIAL = Code {
        id: "DQ-U030",
        title: "the answer is incomplete",
        cause: "Some shards cannot be read: their server is down, refuses this client or came back empty, or the \
                shards are moving. The message names them. The output covers all others.",
        tries: [
            "Check each server: delayq doctor.",
            "If a move is half done: repeat delayq shards move, or undo it with --back.",
            "Run it again once the server answers; until then, counts do not cover the whole deployment.",
        ],
        exit: Exit::Partial,
    };
}

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
