//! The whole configuration file, every role's sections included, for `delayq config` to check and show.

use delayq_cluster::EtcdConfig;
use delayq_compensator::{CompensatorConfig, IntakeConfig, OutboxConfig};
use delayq_forwarder::{ForwarderConfig, RouteConfig, Settings, SinkConfig};
use delayq_gateway::{GatewayConfig, LmstfyConfig};
use delayq_service::config::{
    AdminConfig, DeploymentConfig, Locations, LogConfig, RedisConfig, ShutdownConfig, SpoolConfig,
    TracesConfig,
};
use delayq_timer::{SweepConfig, TimerConfig};
use std::collections::BTreeMap;

delayq_service::configuration! {
    /// The sections of all delayq binaries.
    #[derive(PartialEq)]
    pub struct WholeConfig {
        /// `[deployment]`
        pub deployment: DeploymentConfig,
        /// `[redis]`
        pub redis: RedisConfig,
        /// `[etcd]`
        pub etcd: EtcdConfig,
        /// `[admin]`
        pub admin: AdminConfig,
        /// `[log]`
        pub log: LogConfig,
        /// `[shutdown]`
        pub shutdown: ShutdownConfig,
        /// `[traces]`
        pub traces: TracesConfig,
        /// `[spool]`
        pub spool: SpoolConfig,
        /// `[outbox]`
        pub outbox: OutboxConfig,
        /// `[timer]`
        pub timer: TimerConfig,
        /// `[sweep]`
        pub sweep: SweepConfig,
        /// `[compensator]`
        pub compensator: CompensatorConfig,
        /// `[intake.NAME]`
        pub intake: BTreeMap<String, IntakeConfig>,
        /// `[gateway]`
        pub gateway: GatewayConfig,
        /// `[lmstfy]`
        pub lmstfy: LmstfyConfig,
        /// `[forwarder]`
        pub forwarder: ForwarderConfig,
        /// `[sinks.NAME]`
        pub sinks: BTreeMap<String, SinkConfig>,
        /// `[[routes]]`
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub routes: Vec<RouteConfig>,
    } and |config, at| {
        config.deployment.contradictions(&config.redis, at);
        config.forwarding(Locations::default()).contradictions(&config.redis, at);
    }
}

// === impl WholeConfig ===

impl WholeConfig {
    /// The sections that make a forwarder, with the locations in the file.
    pub fn forwarding(&self, locations: Locations) -> Settings {
        Settings {
            forwarder: self.forwarder.clone(),
            sinks: self.sinks.clone(),
            routes: self.routes.clone(),
            locations,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::CliConfig;
    use delayq_service::config::{Environment, SECTIONS, Section, Source, load};
    use std::collections::BTreeSet;

    fn faults<C: Section>(text: &str) -> String {
        let loaded = load::<C>(&Source::text("delayq.toml", text), &Environment::empty());
        loaded.err().map(|faults| faults.to_string()).unwrap_or_default()
    }

    #[test]
    fn no_section_is_known_that_nobody_reads() {
        let whole = toml::Table::try_from(WholeConfig {
            routes: vec![RouteConfig::default()],
            ..WholeConfig::default()
        });
        let whole = whole.unwrap();
        let read: BTreeSet<&str> = whole.keys().map(String::as_str).collect();
        assert_eq!(read, SECTIONS.iter().copied().collect());
    }

    #[test]
    fn an_unknown_key_or_section_is_never_dropped() {
        for section in ["topics.orders", "timmer", "sink.out"] {
            let text = format!("[{section}]\nlease = '5s'\n");
            let name = section.split('.').next().unwrap();
            for faults in [
                faults::<WholeConfig>(&text),
                faults::<CliConfig>(&text),
                faults::<delayq_forwarder::Config>(&text),
            ] {
                assert!(faults.contains(&format!("unknown field `{name}`")), "{section}: {faults}");
            }
        }
        for section in SECTIONS {
            let header = match *section {
                "routes" => "[[routes]]".to_owned(),
                "sinks" => "[sinks.out.file]".to_owned(),
                "intake" => "[intake.orders.kafka]".to_owned(),
                section => format!("[{section}]"),
            };
            let faults = faults::<WholeConfig>(&format!("{header}\nnonsense = true\n"));
            assert!(faults.contains("unknown field `nonsense`"), "{section}: {faults}");
        }
    }

    #[test]
    fn the_sample_file_holds_every_key_with_its_default() {
        let sample = include_str!("../../../config/delayq.toml");
        delayq_service::config::check_sample::<WholeConfig>(sample).unwrap();
    }

    #[test]
    fn the_sample_file_tells_every_range_as_it_is_enforced() {
        let lines: Vec<&str> = include_str!("../../../config/delayq.toml").lines().collect();
        let (mut comment, mut ranges) = (Vec::new(), 0);
        for (at, line) in lines.iter().enumerate() {
            match (line.strip_prefix('#'), line.split_once(" = ")) {
                (Some(text), None) => {
                    if !lines[at - usize::from(at > 0)].starts_with("# ") {
                        comment.clear();
                    }
                    comment.push(text);
                }
                (None, Some((key, _))) => {
                    let Some(range) = range(&lines, at, key) else { continue };
                    assert!(comment.concat().contains(&range), "{key}: {range} is not in {comment:?}");
                    ranges += 1;
                }
                _ => {}
            }
        }
        assert!(ranges > 35, "only {ranges} ranges");
    }

    /// The range of a key, as the refusal of a value beyond it tells.
    fn range(sample: &[&str], at: usize, key: &str) -> Option<String> {
        ["\"9999days\"", "\"9999TiB\"", "4294967295", "65535", "9.5"].iter().find_map(|beyond| {
            let (mut changed, line) = (sample.to_vec(), format!("{key} = {beyond}"));
            changed[at] = &line;
            let faults = faults::<WholeConfig>(&changed.join("\n"));
            let (_, range) = faults.split_once("is out of range, expected ")?;
            range.lines().next().map(str::to_owned)
        })
    }
}
