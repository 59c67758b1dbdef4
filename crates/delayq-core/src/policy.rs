//! Policies: the defaults of a topic's messages, and a topic's settings in the form of `configure`.

use crate::backoff::Backoff;
use crate::codec::{Codec, CodecError};
use crate::durability::Durability;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The defaults of a topic's messages. `None` leaves a setting at its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Maximum attempts; 0: unlimited. Default 16.
    pub max_attempts: Option<u16>,
    /// Duration of a lease: 1 ms to a day. Default 30 s.
    pub lease: Option<Duration>,
    /// Delay before another attempt. Default exponential, 1 s to 10 min.
    pub backoff: Option<Backoff>,
    /// Time from due to expiry; zero: never. Default never.
    pub expire_after: Option<Duration>,
    /// How long a cancelled id is kept for deduplication. Default 1 h.
    pub remember_cancelled: Option<Duration>,
    /// How long a finished own id is kept for deduplication. Default 60 s.
    pub remember_own: Option<Duration>,
    /// How long a finished generated id is kept for deduplication. Default zero.
    pub remember_generated: Option<Duration>,
    /// Handling of a repeated put whose first try may have been forgotten. Default delivered.
    pub repeats: Option<Repeats>,
    /// Compression of payloads. Default none.
    pub codec: Option<Codec>,
    /// Approximate number of history events that each shard keeps, at most 100,000; 0: none, and kept events are
    /// deleted. Default none.
    pub history: Option<u32>,
    /// How long events are kept: at least 1 s. Default 7 days.
    pub history_for: Option<Duration>,
    /// How long a dead letter is kept; zero: until purged or replayed. Sweeps delete older dead letters. Default zero.
    pub dead_for: Option<Duration>,
    /// Maximum dead letters of each shard; 0: unlimited. Sweeps delete the oldest beyond. Default unlimited.
    pub dead_max: Option<u32>,
    /// The confirmation that puts, cancels and reschedules wait for. Default none.
    pub durability: Option<Durability>,
}

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

/// A setting of a [`Policy`], by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicySetting {
    /// [`Policy::max_attempts`]
    MaxAttempts,
    /// [`Policy::lease`]
    Lease,
    /// [`Policy::backoff`]
    Backoff,
    /// [`Policy::expire_after`]
    ExpireAfter,
    /// [`Policy::remember_cancelled`]
    RememberCancelled,
    /// [`Policy::remember_own`]
    RememberOwn,
    /// [`Policy::remember_generated`]
    RememberGenerated,
    /// [`Policy::repeats`]
    Repeats,
    /// [`Policy::codec`]
    Codec,
    /// [`Policy::history`]
    History,
    /// [`Policy::history_for`]
    HistoryFor,
    /// [`Policy::dead_for`]
    DeadFor,
    /// [`Policy::dead_max`]
    DeadMax,
    /// [`Policy::durability`]
    Durability,
}

/// Settings of a topic in the form of `configure`: field and value; an empty value is the default.
pub type TopicSettings = Vec<(&'static str, Vec<u8>)>;

/// The fields of `configure` beyond a policy.
const FLOW: [&str; 2] = ["paused", "rate"];

// === impl Policy ===

impl Policy {
    /// The effective settings, with the default for each `None`.
    #[must_use]
    pub fn in_force(&self) -> Self {
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        let exponential = || Backoff::Exponential { first: second, longest: 600 * second };
        Self {
            max_attempts: self.max_attempts.or(Some(16)),
            lease: self.lease.or(Some(30 * second)),
            backoff: self.backoff.clone().or_else(|| Some(exponential())),
            expire_after: self.expire_after.or(Some(Duration::ZERO)),
            remember_cancelled: self.remember_cancelled.or(Some(hour)),
            remember_own: self.remember_own.or(Some(60 * second)),
            remember_generated: self.remember_generated.or(Some(Duration::ZERO)),
            repeats: self.repeats.or(Some(Repeats::Deliver)),
            codec: self.codec.or(Some(Codec::None)),
            history: self.history.or(Some(0)),
            history_for: self.history_for.or(Some(7 * 24 * hour)),
            dead_for: self.dead_for.or(Some(Duration::ZERO)),
            dead_max: self.dead_max.or(Some(0)),
            durability: self.durability.or(Some(Durability::Memory)),
        }
    }

    /// Reads one field of the answer of `describe`.
    pub fn read(&mut self, field: &str, value: &[u8]) -> Result<(), CodecError> {
        let text = String::from_utf8_lossy(value);
        let ms = || text.parse().ok().map(Duration::from_millis);
        match field {
            "max_attempts" => self.max_attempts = text.parse().ok(),
            "lease_ms" => self.lease = ms(),
            "backoff" => self.backoff = Backoff::decode(value),
            "expire_after_ms" => self.expire_after = ms(),
            "remember_cancelled_ms" => self.remember_cancelled = ms(),
            "remember_own_ms" => self.remember_own = ms(),
            "remember_generated_ms" => self.remember_generated = ms(),
            "repeats" => self.repeats = text.parse().ok(),
            "codec" => self.codec = Some(text.parse()?),
            "history" => self.history = text.parse().ok(),
            "history_for_ms" => self.history_for = ms(),
            "dead_for_ms" => self.dead_for = ms(),
            "dead_max" => self.dead_max = text.parse().ok(),
            "durability" => self.durability = text.parse().ok(),
            // `count` reports these.
            _ => {}
        }
        Ok(())
    }

    /// Every field, with an empty value for a default.
    pub fn settings(&self) -> TopicSettings {
        PolicySetting::ALL.into_iter().map(|setting| (setting.field(), self.value(setting))).collect()
    }

    /// The fields set here, plus the fields of `reset` with an empty value.
    pub fn changes(&self, reset: &[PolicySetting]) -> TopicSettings {
        let named = PolicySetting::ALL.into_iter().map(|setting| (setting, self.value(setting)));
        let named = named.filter(|(setting, value)| !value.is_empty() || reset.contains(setting));
        named.map(|(setting, value)| (setting.field(), value)).collect()
    }

    fn value(&self, setting: PolicySetting) -> Vec<u8> {
        let text = |value: Option<String>| value.map_or_else(Vec::new, String::into_bytes);
        let ms = |span: Option<Duration>| text(span.map(|span| span.as_millis().to_string()));
        match setting {
            PolicySetting::MaxAttempts => text(self.max_attempts.map(|most| most.to_string())),
            PolicySetting::Lease => ms(self.lease),
            PolicySetting::Backoff => self.backoff.as_ref().map_or_else(Vec::new, Backoff::encode),
            PolicySetting::ExpireAfter => ms(self.expire_after),
            PolicySetting::RememberCancelled => ms(self.remember_cancelled),
            PolicySetting::RememberOwn => ms(self.remember_own),
            PolicySetting::RememberGenerated => ms(self.remember_generated),
            PolicySetting::Repeats => text(self.repeats.map(|repeats| repeats.to_string())),
            PolicySetting::Codec => text(self.codec.map(|codec| codec.to_string())),
            PolicySetting::History => text(self.history.map(|most| most.to_string())),
            PolicySetting::HistoryFor => ms(self.history_for),
            PolicySetting::DeadFor => ms(self.dead_for),
            PolicySetting::DeadMax => text(self.dead_max.map(|most| most.to_string())),
            PolicySetting::Durability => text(self.durability.map(|durability| durability.to_string())),
        }
    }
}

// === impl PolicySetting ===

impl PolicySetting {
    /// Every setting, in display order.
    pub const ALL: [Self; 14] = [
        Self::MaxAttempts,
        Self::Lease,
        Self::Backoff,
        Self::ExpireAfter,
        Self::RememberCancelled,
        Self::RememberOwn,
        Self::RememberGenerated,
        Self::Repeats,
        Self::Codec,
        Self::History,
        Self::HistoryFor,
        Self::DeadFor,
        Self::DeadMax,
        Self::Durability,
    ];

    /// The name for operators.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MaxAttempts => "max-attempts",
            Self::Lease => "lease",
            Self::Backoff => "backoff",
            Self::ExpireAfter => "expire-after",
            Self::RememberCancelled => "remember-cancelled",
            Self::RememberOwn => "remember-own",
            Self::RememberGenerated => "remember-generated",
            Self::Repeats => "repeats",
            Self::Codec => "codec",
            Self::History => "history",
            Self::HistoryFor => "history-for",
            Self::DeadFor => "dead-for",
            Self::DeadMax => "dead-max",
            Self::Durability => "durability",
        }
    }

    /// The field of `configure`.
    const fn field(self) -> &'static str {
        match self {
            Self::MaxAttempts => "max_attempts",
            Self::Lease => "lease_ms",
            Self::Backoff => "backoff",
            Self::ExpireAfter => "expire_after_ms",
            Self::RememberCancelled => "remember_cancelled_ms",
            Self::RememberOwn => "remember_own_ms",
            Self::RememberGenerated => "remember_generated_ms",
            Self::Repeats => "repeats",
            Self::Codec => "codec",
            Self::History => "history",
            Self::HistoryFor => "history_for_ms",
            Self::DeadFor => "dead_for_ms",
            Self::DeadMax => "dead_max",
            Self::Durability => "durability",
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
            _ => Err("write deliver or refuse".to_owned()),
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
    PolicySetting::ALL.into_iter().map(PolicySetting::field).chain(FLOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_scripts() {
        let lua = concat!(include_str!("../lua/lib/topic.lua"), include_str!("../lua/lib/arguments.lua"));
        let policy = Policy::default().in_force();
        for setting in PolicySetting::ALL {
            let value = String::from_utf8(policy.value(setting)).unwrap_or_default();
            let (field, lease) = (setting.field(), setting == PolicySetting::Lease);
            if let Some(line) = lua.lines().find(|line| line.trim().starts_with(&format!("{field} = "))) {
                let same = line.contains(&format!(" = {value},"))
                    || lease && lua.contains(&format!("500, {value}, "));
                assert!(same, "{field} is {value} here, and there:{line}");
            }
        }
        assert_eq!(policy.backoff.unwrap().encode(), [2, 0, 0, 3, 232, 0, 9, 39, 192]);
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
