//! `[timer]`: how shards are owned and pumped.

use delayq_service::config::{Faults, HumanDuration, Section};
use delayq_service::validate_name;
use serde::{Deserialize, Serialize};

/// `[timer]`: how shards are owned and pumped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimerConfig {
    /// Name of this timer in metrics, logs and `delayq timers`, different for each timer: 1 to 64 of
    /// `A-Z a-z 0-9 . _ -`. `""`, the default: the host's name and the process id.
    pub name: String,
    /// Maximum ids that one call moves: 1 to 500; default 150. A full batch keeps Redis busy for about 0.2 ms, and
    /// every other client waits that long, once for each timer.
    pub batch: u16,
    /// Wake-ups closer than this are merged into one pipeline. 0 to 100 ms; default 300 µs. A higher value costs
    /// lateness and saves calls: watch `delayq_lateness_seconds` and `delayq_timer_pump_calls_total`.
    pub resolution: HumanDuration,
    /// Interval at which every owned shard is polled, even if nothing is due. 100 ms to 1 m; default 6 s. Bounds the
    /// lateness of a message whose wake-up was lost.
    pub poll_interval: HumanDuration,
    /// Largest step of Redis's clock, against this host's monotonic clock, without an alarm. 10 ms to 1 h; default 1 s.
    /// Beyond this step the shards are held until the clock is steady: watch `delayq_timer_clock_held`.
    pub max_clock_step: HumanDuration,
    /// Time that a clock has to be steady before its shards continue. 100 ms to 1 h; default 10 s.
    pub clock_steady: HumanDuration,
    /// Time that a topic without settings must have been empty before its shards forget the topic: 0 to 365 d; default
    /// 24 h; 0: never. In any case at least the longest time that the topic remembered finished ids. A later put
    /// creates the topic again.
    pub forget_topics_after: HumanDuration,
    /// Horizons of `delayq_timer_due_messages`: up to 4 times of 1 s to 24 h, the nearest first. Empty, the default: no
    /// such metric. Each horizon costs Redis a few µs for each topic and shard every 15 s.
    pub horizons: Vec<HumanDuration>,
    /// Life of the lock of a single timer, which without etcd keeps a second timer out: 1 s to 5 m, and at least twice
    /// `poll_interval`; default 15 s. After a kill the next timer waits until the lock ends.
    pub lock: HumanDuration,
}

// === impl TimerConfig ===

impl TimerConfig {
    /// The name, or a name made of the host's name and the process id.
    #[must_use]
    pub fn effective_name(&self) -> String {
        if !self.name.is_empty() {
            return self.name.clone();
        }
        delayq_service::name_of_process()
    }
}

impl Default for TimerConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            batch: 150,
            resolution: HumanDuration::from_micros(300),
            poll_interval: HumanDuration::from_secs(6),
            max_clock_step: HumanDuration::from_secs(1),
            clock_steady: HumanDuration::from_secs(10),
            forget_topics_after: HumanDuration::from_secs(86_400),
            horizons: Vec::new(),
            lock: HumanDuration::from_secs(15),
        }
    }
}

impl Section for TimerConfig {
    fn validate(&self, at: &mut Faults) {
        validate_name(at, "name", &self.name);
        let ms = HumanDuration::from_millis;
        let hour = HumanDuration::from_secs(3600);
        at.range("batch", &self.batch, 1..=500);
        at.range("resolution", &self.resolution, ms(0)..=ms(100));
        at.range("poll_interval", &self.poll_interval, ms(100)..=HumanDuration::from_secs(60));
        at.range("max_clock_step", &self.max_clock_step, ms(10)..=hour);
        at.range("clock_steady", &self.clock_steady, ms(100)..=hour);
        let year = HumanDuration::from_secs(365 * 86_400);
        at.range("forget_topics_after", &self.forget_topics_after, ms(0)..=year);
        let is_sound = |horizon: &HumanDuration| (1..=86_400).contains(&horizon.as_secs());
        let rises = self.horizons.windows(2).all(|pair| pair[0] < pair[1]);
        if self.horizons.len() > 4 || !rises || !self.horizons.iter().all(is_sound) {
            at.refuse("horizons", "must be up to 4 times of 1s to 24h, each longer than the one before");
        }
        at.range("lock", &self.lock, HumanDuration::from_secs(1)..=HumanDuration::from_secs(300));
        if *self.lock < 2 * *self.poll_interval {
            at.contradiction(
                &["lock", "poll_interval"],
                "each poll renews the lock; make it at least twice `poll_interval`",
            );
        }
    }
}
