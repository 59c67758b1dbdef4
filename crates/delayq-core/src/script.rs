//! The scripts: the files of `lua/`, assembled with the included functions.
//!
//! A script is a file; a line `--# include a, b` stands for the files `lib/a.lua` and `lib/b.lua`. A long script is cut
//! into parts: `lib/put/each.lua` is included as `put/each`, by `put.lua` alone. Tests replace single files before the
//! assembly (another clock, a broken script).

use sha1::{Digest, Sha1};
use std::borrow::Cow;
use std::collections::HashMap;

macro_rules! verbs {
    ($($verb:ident = $file:literal),+ $(,)?) => {
        /// The scripts by name: one for each move of a message, and for each query.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the header of each Lua file says what it does")]
        pub enum Verb { $($verb),+ }

        impl Verb {
            /// Every script.
            pub const ALL: &[Verb] = &[$(Verb::$verb),+];

            /// The file name, without the extension.
            pub const fn name(self) -> &'static str {
                match self { $(Verb::$verb => $file),+ }
            }

            /// The file, before includes.
            pub const fn file(self) -> &'static str {
                match self { $(Verb::$verb => include_str!(concat!("../lua/", $file, ".lua"))),+ }
            }
        }
    };
}

verbs! {
    Ack = "ack", Audit = "audit", AuditIndex = "audit_index", Bury = "bury", Cancel = "cancel", CancelGroup = "cancel_group", Claim = "claim",
    Configure = "configure", Count = "count", Describe = "describe", Dictionary = "dictionary", Discard = "discard", Extend = "extend", Finish = "finish", Forget = "forget", ForgetQuiet = "forget_quiet", Grow = "grow", Histogram = "histogram", History = "history", Hold = "hold",
    Identify = "identify", Init = "init", Layout = "layout", List = "list", ListGroup = "list_group", Meter = "meter", Move = "move", Operate = "operate", Overview = "overview", PauseGroup = "pause_group", PausedGroups = "paused_groups", Peek = "peek", Probe = "probe", Promote = "promote", Pump = "pump",
    Purge = "purge", Put = "put", Recount = "recount", Release = "release", Repair = "repair", Replay = "replay", Reschedule = "reschedule",
    Reserve = "reserve", Settled = "settled", ShiftGroup = "shift_group", Survey = "survey", Swap = "swap",
}

macro_rules! parts {
    ($($name:literal),+ $(,)?) => {
        const PARTS: &[(&str, &str)] = &[$(($name, include_str!(concat!("../lua/lib/", $name, ".lua")))),+];
    };
}

parts! {
    "alarm", "arguments", "backoff", "bucket", "cancel", "counts", "cursor", "defaults", "delay", "due", "durabilities",
    "durability", "each", "empty", "ends", "envelope", "expiry", "fair", "fault", "fields", "finish", "flight", "format", "gen",
    "head", "histories", "hour", "kill", "lease", "limits", "look", "names", "nearest", "note", "now", "once", "page", "parked", "place",
    "policy", "push", "ready", "receipt", "record", "registry", "reschedule", "retry", "revive", "shard", "shown", "stale", "starts",
    "stats", "stranded", "successor", "tables", "topic", "topic_new", "topics", "turn", "wake",
    "ack/each", "ack/indexes", "ack/judge", "ack/proof", "ack/topics", "ack/write",
    "pump/alarms", "pump/bucket_due", "pump/dispatch", "pump/ends", "pump/expiry", "pump/hindered", "pump/history",
    "pump/index", "pump/leases", "pump/markers", "pump/marks", "pump/move", "pump/shares",
    "put/again", "put/check", "put/each", "put/follow", "put/indexes", "put/join", "put/merge", "put/options", "put/plain", "put/prepare",
    "put/successor", "put/tell", "put/throttle",
    "reserve/allowance", "reserve/entry", "reserve/groups", "reserve/hand_out", "reserve/lease", "reserve/leased_head", "reserve/rates", "reserve/read",
    "reserve/take", "reserve/topic", "reserve/turns",
}

/// A script, ready to be sent.
#[derive(Debug)]
pub struct Script {
    /// The whole text.
    pub source: String,
    /// The SHA-1 of the text, in hex: the name in EVALSHA.
    pub sha: String,
}

/// All scripts, assembled.
#[derive(Debug)]
pub struct Scripts(HashMap<Verb, Script>);

/// Replaces a file for a test, given its name (`put`, `lib/now`) and its text.
pub type Swap<'a> = &'a dyn Fn(&str, &str) -> Option<String>;

// === impl Scripts ===

impl Scripts {
    /// The published scripts.
    pub fn published() -> Self {
        Self::swapped(&|_, _| None)
    }

    /// The scripts with some files replaced, for tests that need another clock or a broken script.
    pub fn swapped(swap: Swap<'_>) -> Self {
        Self(Verb::ALL.iter().map(|&verb| (verb, assemble(verb, swap))).collect())
    }

    /// One script.
    pub fn get(&self, verb: Verb) -> &Script {
        self.0.get(&verb).expect("every verb is assembled at construction")
    }
}

fn assemble(verb: Verb, swap: Swap<'_>) -> Script {
    let file = text_of(verb.name(), verb.file(), swap);
    let mut source = String::with_capacity(16 * 1024);
    for line in file.lines() {
        match line.strip_prefix("--# include ") {
            None => source.push_str(line),
            Some(names) => {
                for name in names.split(", ") {
                    let (_, part) = PARTS.iter().find(|(known, _)| *known == name).unwrap_or_else(|| {
                        panic!("lua/{}.lua includes lib/{name}.lua, which does not exist", verb.name())
                    });
                    source.push_str(&text_of(&format!("lib/{name}"), part, swap));
                }
            }
        }
        source.push('\n');
    }
    let sha = Sha1::digest(source.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    Script { source, sha }
}

fn text_of<'a>(name: &str, text: &'a str, swap: Swap<'_>) -> Cow<'a, str> {
    swap(name, text).map_or(Cow::Borrowed(text), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_says_what_it_moves_takes_returns_and_costs_in_this_order() {
        for verb in Verb::ALL {
            let file = verb.file();
            let mut at = 0;
            assert!(file.starts_with("#!lua"), "{}: no shebang", verb.name());
            let title = format!("-- {}: ", verb.name());
            for part in [
                title.as_str(),
                "-- MOVES    ",
                "-- KEYS     ",
                "-- ARGV     ",
                "-- RETURNS  ",
                "-- COST     ",
            ] {
                at += file[at..]
                    .find(part)
                    .unwrap_or_else(|| panic!("{}: `{part}` is not in its place", verb.name()));
            }
        }
    }

    #[test]
    fn readers_are_unable_to_write() {
        use Verb::{
            Audit, AuditIndex, Count, Describe, Histogram, History, Layout, List, ListGroup, Overview,
            PausedGroups, Peek, Survey,
        };
        for verb in [
            Audit,
            AuditIndex,
            Count,
            Describe,
            Histogram,
            History,
            Layout,
            List,
            ListGroup,
            Overview,
            PausedGroups,
            Peek,
            Survey,
        ] {
            assert!(verb.file().starts_with("#!lua flags=no-writes\n"), "{}", verb.name());
        }
    }

    #[test]
    fn every_part_is_included_somewhere_once_at_the_most() {
        let scripts = Scripts::published();
        for (name, part) in PARTS {
            let using: Vec<_> = Verb::ALL
                .iter()
                .filter(|verb| scripts.get(**verb).source.contains(part))
                .map(|verb| verb.name())
                .collect();
            assert!(!using.is_empty(), "lib/{name}.lua is in no script");
            if let Some((script, _)) = name.split_once('/') {
                assert_eq!(using, [script], "lib/{name}.lua is a part of one script");
            }
        }
        for verb in Verb::ALL {
            let source = &scripts.get(*verb).source;
            for (name, part) in PARTS {
                assert!(source.matches(part).count() <= 1, "{} includes lib/{name}.lua twice", verb.name());
            }
        }
    }

    #[test]
    fn no_script_uses_a_command_that_walks_the_whole_queue() {
        let scripts = Scripts::published();
        for verb in Verb::ALL {
            let source = &scripts.get(*verb).source;
            for banned in ["'LREM'", "'LINDEX'", "'SMEMBERS'", "'KEYS'", "'HVALS'", "0, -1)"] {
                assert!(!source.contains(banned), "{} uses {banned}", verb.name());
            }
        }
    }
}
