//! The whole shard compared with the model, over random runs.

use crate::bare_shard::scripts_with;
use crate::random_run::{Failure, Seeds, Weather, run_seeds};
use delayq_tests::environment::at_length;
use delayq_tests::redis_server::RedisServer;

/// Runs that failed once: a weather and a seed a line.
const SEEDS: &str = include_str!("seeds.txt");

/// Runs in fair weather; every other weather gets a part of this number.
const SEQUENCES: u64 = 500;
const SEQUENCES_AT_LENGTH: u64 = 2000;
const FIRST: u64 = 1_000_000;

#[allow(
    clippy::disallowed_methods,
    reason = "how many runs, and which, is for the user who runs the tests to say"
)]
fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// `DELAYQ_MODEL_SEED` sets the first seed, and alone runs that seed only; `DELAYQ_MODEL_SEQUENCES` sets the
/// number of runs.
fn seeds(weather: Weather, share: u64) -> Seeds {
    let (first, count) = (asked("DELAYQ_MODEL_SEED"), asked("DELAYQ_MODEL_SEQUENCES"));
    let count = match (first, count) {
        (Some(_), None) => 1,
        (_, count) => count.unwrap_or_else(|| at_length(SEQUENCES, SEQUENCES_AT_LENGTH)).div_ceil(share),
    };
    Seeds { weather, first: first.unwrap_or(FIRST), count }
}

async fn hold_to_the_model(test: &str, seeds: Seeds) {
    let server = RedisServer::private().await;
    if let Err(Failure { seed, why }) = run_seeds(&server, &scripts_with(&[]), seeds).await {
        panic!(
            "seed {seed}: {why}\nAgain with\n  DELAYQ_MODEL_SEED={seed} cargo test -p delayq --test protocol \
             -- {test}\nKeep it in tests/protocol/seeds.txt, as the line\n  {} {seed}",
            seeds.weather.word()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_each_step_of_a_random_run_the_whole_shard_equals_the_model() {
    hold_to_the_model("after_each_step", seeds(Weather::Fair, 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_every_answer_lost_and_every_call_repeated_the_whole_shard_equals_the_model() {
    hold_to_the_model("with_every_answer_lost", seeds(Weather::AnswersLost, 4)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_poison_about_the_rest_of_the_shard_equals_the_model() {
    hold_to_the_model("with_poison_about", seeds(Weather::Poisoned, 4)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_each_sweep_of_what_is_sound_or_got_stuck_the_whole_shard_equals_the_model() {
    hold_to_the_model("after_each_sweep", seeds(Weather::Swept, 10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_limits_of_groups_the_whole_shard_equals_the_model() {
    hold_to_the_model("with_limits_of_groups", seeds(Weather::Grouped, 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seeds_that_failed_once_do_not_fail_again() {
    for line in SEEDS.lines().filter(|line| !line.starts_with('#')) {
        let (word, seed) = line.split_once(' ').expect("a line is a weather and a seed");
        let weather = Weather::ALL.into_iter().find(|weather| weather.word() == word).unwrap();
        let seeds = Seeds { weather, first: seed.parse().unwrap(), count: 1 };
        hold_to_the_model("seeds_that_failed_once", seeds).await;
    }
}
