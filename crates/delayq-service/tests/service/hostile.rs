//! Every text in a configuration file is accepted or refused with its faults, without a panic.

use delayq_service::config::{DeploymentConfig, Environment, RedisConfig, Source, SpoolConfig, load};
use delayq_tests::mutation;

delayq_service::sections! {
    struct Config {
        deployment: DeploymentConfig,
        redis: RedisConfig,
        spool: SpoolConfig,
    }
}

delayq_tests::try_with_mutations! {
    #[test]
    fn a_mutated_configuration_is_taken_or_refused_with_its_faults() { configurations_answer(5_000, 1_000_000) }
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

fn configurations_answer(cases: u64) {
    let mut rng = fastrand::Rng::with_seed(4);
    for _ in 0..cases {
        match load::<Config>(
            &Source::text("fuzzed", mutation::text(&mut rng, SAMPLE, &PIECES)),
            &Environment::empty(),
        ) {
            Ok(loaded) => drop(toml_of(&loaded.config)),
            Err(faults) => assert!(!faults.to_string().is_empty()),
        }
    }
}

fn toml_of(config: &Config) -> String {
    delayq_service::config::effective(config)
}
