//! Tests of the arguments.

use super::*;
use clap::error::ErrorKind;

// clap holds a requirement met where what is required conflicts with another argument that is given.
#[test]
fn an_option_that_a_mode_would_ignore_is_refused() {
    for line in [
        "put t x --payload-file f",
        "put t x --from f",
        "put t --payload-file p --from f",
        "put t --from f --at +1s",
        "put t --from f --in 1s",
        "put t --from f --id a",
        "put t --from f --group g",
        "put t --from f --header a=b",
        "put t --from f --expires +1h",
        "put t --from f --max-attempts 3",
        "put t --from f --replace",
        "put t x --strict",
        "put t x --in-flight 3",
        "put t x --in 1s --past-ok",
        "get t a --payload --json",
        "get t a --payload -o json",
        "list t --group g --state ready",
        "list t --group g --from now",
        "list t --group g --until now",
        "check --format human --json",
        "check --format human -o text",
        "promote t a --from now",
        "promote t a --until now",
        "promote t a --max 1",
        "promote t a --rate 1",
        "promote t a --yes",
        "cancel t a --topic t",
        "cancel --all",
        "cancel t a --all --group g",
        "reschedule t a --to +1s --in 1s",
        "reschedule t a --to +1s --by 1s",
        "reschedule t a --in 1s --past-ok",
        "reschedule t a --in 1s --token x",
        "reschedule t a --in 1s --topic t",
        "reschedule --all --group g --by 1s --token x --expected now",
        "reschedule --all --group g --in 1s --token x",
        "dead replay t a --all",
        "dead replay t a --reason x",
        "dead replay t a --limit 1",
        "dead replay t a --rate 1",
        "dead replay t --all --group g",
        "audit t --bodies",
        "backup f --resume --dead",
        "backup f --resume --topic t",
        "backup f --resume --overwrite",
        "acl print --user u",
        "timers drain a --no-wait --deadline 5s",
        "spool show --payload",
        "spool show 1 --payload --json",
        "spool retry 1 --all",
        "spool retry 1 --topic t",
        "spool discard 1 --reason x",
        "spool discard 1 --waiting",
        "spool discard --all --waiting --reason x",
        "outbox init --adopt --print",
        "outbox show --payload",
        "outbox retry 1 --all",
        "outbox discard 1 --all",
        "up --redis-cluster 3 --redis-nodes 2",
        "up --redis-cluster 3 --port 6379",
        "up --redis-nodes 2 --port 6379",
        "topics --json -o text",
        "put t --strict",
        "put t --payload-file p --strict",
        "reschedule t a --by 1s --past-ok",
        "cancel t --topic u",
        "spool discard 1 --topic t",
    ] {
        let words = ["delayq"].into_iter().chain(line.split(' '));
        let refusal = Cli::try_parse_from(words).expect_err(line);
        let of_mode = [ErrorKind::ArgumentConflict, ErrorKind::MissingRequiredArgument];
        assert!(of_mode.contains(&refusal.kind()), "{line}: {refusal}");
    }
}
