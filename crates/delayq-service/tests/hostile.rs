//! Whatever stands in a configuration file, it is taken or refused with its faults, and never panics.
//!
//! 5,000 mutated files in CI; `make fuzz` tries 1,000,000.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use delayq_service::config::{DeploymentConfig, Environment, RedisConfig, Source, SpoolConfig, load};

delayq_service::sections! {
    struct Config {
        deployment: DeploymentConfig,
        redis: RedisConfig,
        spool: SpoolConfig,
    }
}

const SAMPLE: &str = "[deployment]\nshards = 8\nnamespace = \"dq\"\n[redis]\nurl = \"redis://u:p@127.0.0.1:6379/1\"\n\
    password = { file = \"/x\" }\ncall_deadline = \"1500ms\"\n[admin]\nlisten = \"[::1]:0\"\n[log]\nfilter = \"info,a=debug\"\n\
    format = \"json\"\n[spool]\ndir = \"/var/spool\"\nmax_bytes = \"1.5GiB\"\n[shutdown]\ndrain_deadline = \"10s\"\n";

const PIECES: [&str; 14] = [
    "\"",
    "[",
    "]]",
    "{",
    "=",
    "\n",
    "-1",
    "1e999",
    "\u{0}",
    "\u{1f4a5}",
    "18446744073709551616",
    "ms",
    "'''",
    ".",
];

fn mutated(rng: &mut fastrand::Rng) -> String {
    let mut text: Vec<char> = SAMPLE.chars().collect();
    for _ in 0..rng.usize(1..5) {
        let at = rng.usize(..text.len());
        match rng.u8(..4) {
            0 => drop(text.remove(at)),
            1 => drop(text.splice(at..at, rng.choice(PIECES).unwrap().chars())),
            2 => drop(text.drain(at..(at + rng.usize(..12)).min(text.len()))),
            _ => text[at] = char::from(rng.u8(..128)),
        }
    }
    text.into_iter().collect()
}

fn configurations_answer(cases: u64) {
    let mut rng = fastrand::Rng::with_seed(4);
    for _ in 0..cases {
        match load::<Config>(&Source::text("fuzzed", mutated(&mut rng)), &Environment::empty()) {
            Ok(loaded) => drop(toml_of(&loaded.config)),
            Err(faults) => assert!(!faults.to_string().is_empty()),
        }
    }
}

/// As `delayq config show` prints it.
fn toml_of(config: &Config) -> String {
    delayq_service::config::effective(config)
}

#[test]
fn a_mutated_configuration_is_taken_or_refused_with_its_faults() {
    configurations_answer(5_000);
}

#[test]
#[ignore = "make fuzz"]
fn a_mutated_configuration_is_taken_or_refused_with_its_faults_long() {
    configurations_answer(1_000_000);
}
