//! The whole shard against the model, over random runs.

use crate::random_run::hold_to_the_model;

/// Seeds that failed once, one a line.
const SEEDS: &str = include_str!("seeds.txt");

const SEQUENCES: u64 = 1000;

#[allow(
    clippy::disallowed_methods,
    reason = "how many runs, and which, is for whoever runs the tests to say"
)]
fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_each_step_of_a_random_run_the_whole_shard_equals_the_model() {
    match asked("DELAYQ_MODEL_SEED") {
        Some(seed) => hold_to_the_model(seed, 1).await,
        None => hold_to_the_model(1_000_000, asked("DELAYQ_MODEL_SEQUENCES").unwrap_or(SEQUENCES)).await,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seeds_that_failed_once_do_not_fail_again() {
    for line in SEEDS.lines().filter(|line| !line.starts_with('#')) {
        hold_to_the_model(line.parse().unwrap(), 1).await;
    }
}
