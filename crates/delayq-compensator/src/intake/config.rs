//! `[intake.NAME]`: a topic, queue or stream that producers publish to.

use super::kinds::intake_kinds;
use super::{KafkaIntakeConfig, NatsIntakeConfig, RabbitmqIntakeConfig, SqsIntakeConfig};
use delayq::Topic;
use delayq_service::config::{Faults, HumanDuration, Section};
use serde::{Deserialize, Serialize};

macro_rules! sections {
    ($($(#[doc = $doc:literal])* $word:literal, $table:ident: $config:ty, feature: $feature:literal,
        look: $look:path, source: |$of_kind:ident, $intake:ident| $source:expr;)*) => {
        /// `[intake.NAME]`: an intake from one broker. The table with the name of the kind has the broker's keys.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct IntakeConfig {
            /// Destination of records that cannot be taken in, in the broker's own terms: a topic, a queue, a subject.
            /// Required.
            pub dead: String,
            /// The topic of records that name none; unset: they have to.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub topic: Option<Topic>,
            /// Maximum number of records in one step. 1 to 4,000; default 500.
            pub batch: u16,
            /// Maximum number of records that are taken from the broker and not settled. At least `batch`, at most 60,000;
            /// default 2000. Bounds memory, and the number of records behind resting ones.
            pub in_flight: u16,
            /// Longest rest between two tries while the broker or Redis is unavailable; the first rest is a hundredth. 100
            /// ms to 10 m; default 5 s.
            pub longest_rest: HumanDuration,
            $(
                $(#[doc = $doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $table: Option<$config>,
            )*
        }

        impl Default for IntakeConfig {
            fn default() -> Self {
                Self {
                    dead: String::new(),
                    topic: None,
                    batch: 500,
                    in_flight: 2000,
                    longest_rest: HumanDuration::from_secs(5),
                    $($table: None,)*
                }
            }
        }

        impl IntakeConfig {
            const KINDS: [&'static str; [$($word),*].len()] = [$($word),*];

            /// Number of kinds with a table: one if valid.
            fn kinds(&self) -> usize {
                [$(self.$table.is_some()),*].into_iter().filter(|there| *there).count()
            }

            fn validate_tables(&self, at: &mut Faults) {
                $(if let Some(table) = &self.$table {
                    at.section($word, table);
                    table.check_dead(&self.dead, at);
                })*
            }
        }
    };
}

intake_kinds!(sections);

impl Section for IntakeConfig {
    fn validate(&self, at: &mut Faults) {
        if self.dead.is_empty() {
            at.refuse(
                "dead",
                "set a destination for records that cannot be taken in, so that none is lost silently",
            );
        }
        at.range("batch", &self.batch, 1..=4000);
        at.range("in_flight", &self.in_flight, self.batch..=60_000);
        let rest = HumanDuration::from_millis(100)..=HumanDuration::from_secs(600);
        at.range("longest_rest", &self.longest_rest, rest);
        if self.kinds() != 1 {
            let known = Self::KINDS.join(", ");
            at.refuse("kind", format!("an intake needs one table with the name of its kind: {known}"));
        }
        self.validate_tables(at);
    }
}
