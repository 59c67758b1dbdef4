//! Policies: the defaults of a topic's messages, and a topic's settings in the form of `configure`.
//!
//! One table has every setting. The command line, the gateway, `tests/vectors/protocol.json` and, through that file, the
//! clients in other languages are made from the table. `lua/configure.lua` enforces the ranges; a test compares the two.

use crate::backoff::Backoff;
use crate::codec::{Codec, CodecError};
use crate::durability::Durability;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Longest span of a setting, in ms.
pub const MAX_SPAN_MS: u64 = 1 << 52;

/// Longest lease, in ms: a day.
pub const MAX_LEASE_MS: u64 = 24 * 3_600_000;

/// Handling of a put that is repeated because its answer was lost, if its message is unknown: the message never
/// arrived, or was finished and forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repeats {
    /// Stored and delivered, perhaps a second time.
    #[default]
    Deliver,
    /// Answered *stale* once the topic may have forgotten the result of the first try: the message may never be
    /// delivered.
    Refuse,
}

/// Handling of a group's other messages while one message has failed: was given back, lost the lease, or is dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupFailed {
    /// The other messages are delivered meanwhile.
    #[default]
    Pass,
    /// The other messages wait until the failed message has finished.
    Block,
}

/// Maximum messages of one group in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupRate {
    /// `None` for no limit.
    limit: Option<(u32, RateUnit)>,
}

/// The span of a [`GroupRate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateUnit {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
}

/// The order in which workers get the ready messages of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupOrder {
    /// As the messages became ready.
    #[default]
    Ready,
    /// The groups take turns.
    Fair,
}

/// One entry of the table: the description of a setting for every language.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The name for operators.
    pub name: &'static str,
    /// The field of `configure`.
    pub field: &'static str,
    /// The type, with its range.
    pub form: Form,
    /// The range in words; empty if the type says everything.
    pub range: &'static str,
    /// The default as operators write the value.
    pub default: &'static str,
    /// What the setting means.
    pub means: &'static str,
}

/// The type of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// A whole number from 0 on.
    Count {
        /// The largest number.
        most: u32,
    },
    /// A time span, stored as ms.
    Span {
        /// The shortest span.
        least_ms: u64,
        /// The longest span.
        most_ms: u64,
    },
    /// A [`Backoff`].
    Backoff,
    /// One of these words; a word may end in classes of characters, such as `[1-9]`.
    Word(&'static [&'static str]),
    /// True, stored as 1, or false, stored as an empty value.
    Flag,
    /// A number for all shards, of which each shard stores its part.
    Rate {
        /// The least part.
        least: f64,
        /// The largest part.
        most: f64,
    },
}

/// Expands the table into [`Policy`], [`PolicySetting`], and the access of a setting by name.
macro_rules! settings {
    ($($setting:ident, $key:ident: $type:ty = $default:expr, $name:literal, $field:literal, $form:expr, $range:literal,
        $shown:literal, $means:literal;)+) => {
        /// The defaults of a topic's messages. `None` leaves a setting at its default.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Policy {
            $(#[doc = concat!($means, ". Default ", $shown, ".")] pub $key: Option<$type>,)+
        }

        /// A setting of a [`Policy`], by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PolicySetting {
            $(#[doc = concat!("[`Policy::", stringify!($key), "`]")] $setting,)+
        }

        /// Every setting of a [`Policy`], in display order.
        pub const SETTINGS: [Setting; [$($name),+].len()] =
            [$(Setting { name: $name, field: $field, form: $form, range: $range, default: $shown, means: $means },)+];

        impl PolicySetting {
            /// Every setting, in display order.
            pub const ALL: [Self; SETTINGS.len()] = [$(Self::$setting),+];
        }

        impl Policy {
            /// The effective settings, with the default for each `None`.
            #[must_use]
            pub fn in_force(&self) -> Self {
                Self { $($key: self.$key.clone().or_else(|| Some($default)),)+ }
            }

            /// The stored form of a setting; `None`: at its default.
            pub fn stored(&self, setting: PolicySetting) -> Option<Vec<u8>> {
                match setting { $(PolicySetting::$setting => self.$key.as_ref().map(Stored::encode),)+ }
            }

            fn decode(&mut self, setting: PolicySetting, value: &[u8]) -> Result<(), String> {
                match setting { $(PolicySetting::$setting => self.$key = Some(Stored::decode(value)?),)+ }
                Ok(())
            }
        }
    };
}

settings! {
    MaxAttempts, max_attempts: u16 = 16, "max-attempts", "max_attempts", Form::Count { most: 65_535 }, "at most 65535", "16",
        "Maximum attempts; 0 for no limit";
    Lease, lease: Duration = Duration::from_secs(30), "lease", "lease_ms", Form::Span { least_ms: 1, most_ms: MAX_LEASE_MS },
        "1ms to 1day", "30s", "How long a lease lasts";
    Backoff, backoff: Backoff = Backoff::default(), "backoff", "backoff", Form::Backoff, "1ms to 49days each", "1s..10m",
        "Delay before another attempt";
    ExpireAfter, expire_after: Duration = Duration::ZERO, "expire-after", "expire_after_ms", SPAN, "", "0s",
        "Time from due to expiry; 0 for never";
    RememberCancelled, remember_cancelled: Duration = Duration::from_secs(3600), "remember-cancelled", "remember_cancelled_ms",
        SPAN, "", "1h", "How long a cancelled id is kept for deduplication";
    RememberOwn, remember_own: Duration = Duration::from_secs(60), "remember-own", "remember_own_ms", SPAN, "", "1m",
        "How long a finished id of the producer's own is kept for deduplication";
    RememberGenerated, remember_generated: Duration = Duration::ZERO, "remember-generated", "remember_generated_ms", SPAN, "",
        "0s", "How long a finished generated id is kept for deduplication";
    Repeats, repeats: Repeats = Repeats::Deliver, "repeats", "repeats", Form::Word(&["deliver", "refuse"]), "", "deliver",
        "Handling of a repeated put whose first try may have finished and been forgotten: deliver (perhaps twice) or refuse \
         (perhaps never)";
    Codec, codec: Codec = Codec::None, "codec", "codec", Form::Word(&["none", "zstd", "zstd:[0-9]{1,10}"]), "", "none",
        "Compression of payloads, by clients that compress: none, zstd, or zstd:ID of a dictionary";
    History, history: u32 = 0, "history", "history", Form::Count { most: 100_000 }, "at most 100000", "0",
        "Approximate number of events that each shard keeps for delayq log; 0 for none";
    HistoryFor, history_for: Duration = Duration::from_secs(7 * 24 * 3600), "history-for", "history_for_ms",
        Form::Span { least_ms: 1000, most_ms: MAX_SPAN_MS }, "at least 1s", "7days", "How long events are kept";
    DeadFor, dead_for: Duration = Duration::ZERO, "dead-for", "dead_for_ms", SPAN, "", "0s",
        "How long a dead letter is kept before a sweep deletes it; 0 until it is purged or replayed";
    DeadMax, dead_max: u32 = 0, "dead-max", "dead_max", Form::Count { most: u32::MAX }, "", "0",
        "Maximum dead letters of each shard, of which sweeps delete the oldest; 0 for no limit";
    GroupInFlight, group_in_flight: u16 = 0, "group-in-flight", "group_in_flight", Form::Count { most: 65_535 }, "at most 65535",
        "0", "Maximum messages of a group that are leased at the same time: 1 delivers a group in order, one after the other; 0 for \
         no limit";
    GroupFailed, group_failed: GroupFailed = GroupFailed::Pass, "group-failed", "group_failed", Form::Word(&["pass", "block"]), "",
        "pass", "Handling of a group's other messages while one of them has failed: pass (they are delivered meanwhile) or block \
         (they wait until it has finished)";
    GroupRate, group_rate: GroupRate = GroupRate::default(), "group-rate", "group_rate",
        Form::Word(&["0", "[1-9][0-9]{0,6}/[smh]"]), "", "0",
        "Maximum messages of a group that are handed out in a second, minute or hour, evenly: 5/s, 90/m, 1000/h; 0 for no limit";
    GroupOrder, group_order: GroupOrder = GroupOrder::Ready, "group-order", "group_order", Form::Word(&["ready", "fair"]), "",
        "ready", "Order in which ready messages are handed out: ready (as they became ready) or fair (the groups take turns, so that \
         many messages of one group do not delay those of another)";
    Durability, durability: Durability = Durability::Memory, "durability", "durability",
        Form::Word(&["memory", "disk", "replica:[1-9]"]), "", "memory",
        "Confirmation that puts, cancels and reschedules wait for: memory (none), disk (the master's append-only file, synced; \
         needs Redis 7.2), or replica:N (N replicas, 1 to 9, have the write)";
}

const SPAN: Form = Form::Span { least_ms: 0, most_ms: MAX_SPAN_MS };

/// The fields of `configure` beyond a policy.
pub const FLOW: [Setting; 2] = [
    Setting {
        name: "paused",
        field: "paused",
        form: Form::Flag,
        range: "",
        default: "false",
        means: "Stops deliveries",
    },
    Setting {
        name: "rate",
        field: "rate",
        form: Form::Rate { least: 1e-9, most: 1e9 },
        range: "1e-9 to 1e9 in each shard",
        default: "unlimited",
        means: "Maximum deliveries per second over all shards",
    },
];

/// Settings of a topic in the form of `configure`: field and value; an empty value is the default.
pub type TopicSettings = Vec<(&'static str, Vec<u8>)>;

trait Stored: Sized {
    fn encode(&self) -> Vec<u8>;
    fn decode(stored: &[u8]) -> Result<Self, String>;
}

/// Values whose stored form is their text.
macro_rules! stored_as_text {
    ($($type:ty),+) => {
        $(impl Stored for $type {
            fn encode(&self) -> Vec<u8> {
                self.to_string().into_bytes()
            }

            fn decode(stored: &[u8]) -> Result<Self, String> {
                String::from_utf8_lossy(stored).parse::<Self>().map_err(|error| error.to_string())
            }
        })+
    };
}

stored_as_text!(u16, u32, u64, Repeats, GroupFailed, GroupRate, GroupOrder, Codec, Durability);

impl Stored for Duration {
    fn encode(&self) -> Vec<u8> {
        self.as_millis().to_string().into_bytes()
    }

    fn decode(stored: &[u8]) -> Result<Self, String> {
        u64::decode(stored).map(Self::from_millis)
    }
}

impl Stored for Backoff {
    fn encode(&self) -> Vec<u8> {
        self.encode()
    }

    fn decode(stored: &[u8]) -> Result<Self, String> {
        Self::decode(stored).ok_or_else(|| "no back-off".to_owned())
    }
}

// === impl Policy ===

impl Policy {
    /// Reads one field of the answer of `describe`. An unreadable value counts as the default.
    pub fn read(&mut self, field: &str, value: &[u8]) -> Result<(), CodecError> {
        match PolicySetting::ALL.into_iter().find(|setting| setting.entry().field == field) {
            // Payloads would be read wrongly.
            Some(PolicySetting::Codec) => self.codec = Some(String::from_utf8_lossy(value).parse()?),
            Some(setting) => drop(self.decode(setting, value)),
            // `count` reports these.
            None => {}
        }
        Ok(())
    }

    /// Sets a setting to a value in its stored form.
    ///
    /// # Errors
    /// The value is invalid or outside the range of the setting.
    pub fn set(&mut self, setting: PolicySetting, stored: &[u8]) -> Result<(), String> {
        setting.entry().check(stored)?;
        self.decode(setting, stored)
    }

    /// Every field, with an empty value for a default.
    pub fn settings(&self) -> TopicSettings {
        PolicySetting::ALL.into_iter().map(|setting| (setting.entry().field, self.value(setting))).collect()
    }

    /// The fields set here, plus the fields of `reset` with an empty value.
    pub fn changes(&self, reset: &[PolicySetting]) -> TopicSettings {
        let named = PolicySetting::ALL.into_iter().map(|setting| (setting, self.value(setting)));
        let named = named.filter(|(setting, value)| !value.is_empty() || reset.contains(setting));
        named.map(|(setting, value)| (setting.entry().field, value)).collect()
    }

    fn value(&self, setting: PolicySetting) -> Vec<u8> {
        self.stored(setting).unwrap_or_default()
    }
}

// === impl PolicySetting ===

impl PolicySetting {
    /// The entry in the table.
    #[must_use]
    pub const fn entry(self) -> &'static Setting {
        const ALL: &[Setting] = &SETTINGS;
        &ALL[self as usize]
    }

    /// The name for operators.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.entry().name
    }
}

// === impl Setting ===

impl Setting {
    /// Meaning, range and default in words.
    #[must_use]
    pub fn doc(&self) -> String {
        let range = if self.range.is_empty() { String::new() } else { format!(" ({})", self.range) };
        format!("{}{range}. Default {}.", self.means, self.default)
    }

    fn check(&self, stored: &[u8]) -> Result<(), String> {
        let number = || u64::decode(stored);
        let fits = match self.form {
            Form::Count { most } => number().is_ok_and(|number| number <= most.into()),
            Form::Span { least_ms, most_ms } => number().is_ok_and(|ms| (least_ms..=most_ms).contains(&ms)),
            _ => return Ok(()),
        };
        match (fits, self.range, self.form) {
            (true, ..) => Ok(()),
            (false, "", Form::Count { most }) => Err(format!("must be a number up to {most}")),
            (false, "", _) => Err(format!("must be at most {MAX_SPAN_MS} ms")),
            (false, range, _) => Err(format!("write {range}")),
        }
    }
}

// === impl Repeats ===

impl FromStr for Repeats {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "deliver" => Ok(Self::Deliver),
            "refuse" => Ok(Self::Refuse),
            _ => Err("must be deliver or refuse".to_owned()),
        }
    }
}

impl fmt::Display for Repeats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deliver => "deliver",
            Self::Refuse => "refuse",
        })
    }
}

// === impl GroupFailed ===

impl FromStr for GroupFailed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "pass" => Ok(Self::Pass),
            "block" => Ok(Self::Block),
            _ => Err("must be pass or block".to_owned()),
        }
    }
}

impl fmt::Display for GroupFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "pass",
            Self::Block => "block",
        })
    }
}

// === impl GroupRate ===

impl GroupRate {
    /// So many messages (1 to 9,999,999) in a span of time; `None` outside of these.
    #[must_use]
    pub fn new(messages: u32, unit: RateUnit) -> Option<Self> {
        (1..=9_999_999).contains(&messages).then_some(Self { limit: Some((messages, unit)) })
    }
}

impl FromStr for GroupRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self::default());
        }
        let parsed = || {
            let (messages, unit) = text.split_once('/')?;
            let unit = match unit {
                "s" => RateUnit::Second,
                "m" => RateUnit::Minute,
                "h" => RateUnit::Hour,
                _ => return None,
            };
            let is_plain = messages.starts_with(|first: char| ('1'..='9').contains(&first));
            Self::new(messages.parse().ok().filter(|_| is_plain)?, unit)
        };
        parsed().ok_or_else(|| "must be 0, or a number up to 9999999 with /s, /m or /h".to_owned())
    }
}

impl fmt::Display for GroupRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            None => f.write_str("0"),
            Some((messages, RateUnit::Second)) => write!(f, "{messages}/s"),
            Some((messages, RateUnit::Minute)) => write!(f, "{messages}/m"),
            Some((messages, RateUnit::Hour)) => write!(f, "{messages}/h"),
        }
    }
}

// === impl GroupOrder ===

impl FromStr for GroupOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ready" => Ok(Self::Ready),
            "fair" => Ok(Self::Fair),
            _ => Err("must be ready or fair".to_owned()),
        }
    }
}

impl fmt::Display for GroupOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready => "ready",
            Self::Fair => "fair",
        })
    }
}

/// The field of `configure` with this name, if any.
pub fn known_field(name: &str) -> Option<&'static str> {
    fields().find(|field| *field == name)
}

/// Completes `settings` with every other setting at its default.
pub fn full_settings(settings: TopicSettings) -> TopicSettings {
    let mut full: TopicSettings = fields().map(|field| (field, Vec::new())).collect();
    for (field, value) in settings {
        full.iter_mut().filter(|(known, _)| *known == field).for_each(|(_, place)| place.clone_from(&value));
    }
    full
}

fn fields() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().chain(&FLOW).map(|setting| setting.field)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a constant of the scripts; a number stands for itself.
    fn constant(name: &'static str) -> &'static str {
        let limits = concat!(include_str!("../lua/lib/limits.lua"), include_str!("../lua/lib/defaults.lua"));
        let lists = limits.lines().filter_map(|line| line.strip_prefix("local ")?.split_once(" = "));
        let mut pairs = lists.flat_map(|(names, values)| names.split(", ").zip(values.split(", ")));
        pairs.find(|(known, _)| *known == name).map_or(name, |(_, value)| value)
    }

    #[test]
    fn the_defaults_are_those_of_the_scripts() {
        let policy = include_str!("../lua/lib/policy.lua");
        let in_lua =
            policy.lines().filter_map(|line| line.strip_prefix("  ")?.strip_suffix(',')?.split_once(" = "));
        let in_lua: Vec<(&str, &str)> = in_lua.map(|(field, value)| (field, constant(value))).collect();
        let defaults = Policy::default().in_force();
        for (field, value) in &in_lua {
            let setting = PolicySetting::ALL.into_iter().find(|setting| setting.entry().field == *field);
            assert_eq!(defaults.stored(setting.unwrap()), Some(value.as_bytes().to_vec()), "{field}");
        }
        assert_eq!(in_lua.len(), 6);
        assert_eq!(constant("LONGEST_LEASE_MS"), MAX_LEASE_MS.to_string());
        assert_eq!(constant("LONGEST_SPAN_MS"), MAX_SPAN_MS.to_string());
        assert_eq!(defaults.backoff.unwrap().encode(), [2, 0, 0, 3, 232, 0, 9, 39, 192]);
    }

    #[test]
    fn a_value_outside_the_range_of_a_setting_is_refused() {
        let mut policy = Policy::default();
        for (setting, taken, refused) in [
            (PolicySetting::MaxAttempts, "65535", "65536"),
            (PolicySetting::Lease, "86400000", "86400001"),
            (PolicySetting::Lease, "1", "0"),
            (PolicySetting::ExpireAfter, "4503599627370496", "4503599627370497"),
            (PolicySetting::HistoryFor, "1000", "999"),
            (PolicySetting::History, "100000", "100001"),
            (PolicySetting::DeadMax, "4294967295", "4294967296"),
            (PolicySetting::Durability, "replica:9", "replica:0"),
            (PolicySetting::Repeats, "refuse", ""),
            (PolicySetting::GroupFailed, "block", "stop"),
            (PolicySetting::GroupOrder, "fair", "unfair"),
            (PolicySetting::GroupRate, "9999999/h", "0/s"),
            (PolicySetting::GroupRate, "0", "5/d"),
        ] {
            policy.set(setting, taken.as_bytes()).unwrap();
            assert_eq!(policy.stored(setting), Some(taken.as_bytes().to_vec()));
            assert!(policy.set(setting, refused.as_bytes()).is_err(), "{setting:?} {refused}");
        }
    }

    #[test]
    fn a_change_names_what_is_set_and_what_is_reset_and_nothing_else() {
        let set = Policy { lease: Some(Duration::from_secs(60)), ..Policy::default() };
        let expected = vec![("max_attempts", vec![]), ("lease_ms", b"60000".to_vec())];
        assert_eq!(set.changes(&[PolicySetting::MaxAttempts]), expected);
        assert_eq!(Policy::default().changes(&[]), vec![]);
        assert_eq!(Policy::default().settings().len(), PolicySetting::ALL.len());
    }
}
