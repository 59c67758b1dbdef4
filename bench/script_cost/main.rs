//! The cost of each script inside Redis, and its growth with pending messages: µs per message from `INFO commandstats`,
//! compared with the bare commands for the minimum of the same work; and the bytes of a pending message.
//!
//! Then the cost of a call of one message compared with its bare commands, and the extra cost of own ids and groups in
//! calls of a hundred.
//!
//! One shard with a topic of default policy, except that finished ids are remembered only as long as needed. Six new
//! servers, three for delayq and three bare, take turns; medians of all rounds.
//!
//! Last, the time in Redis of a call of a hundred messages of 256 KiB, and the wait of a PING beside the call.
//!
//! `script-cost [pending]`; `pending` defaults to 1,000,000. Below 100,000 the figures for bytes are meaningless.
//! `script-cost bodies` measures only the calls of large messages.

mod bare;
mod bodies;
mod calls;
mod ids;
mod memory;
mod scripts;
mod server;

use bare::Bare;
use calls::Calls;
use ids::Ids;
use scripts::Shard;
use std::collections::BTreeMap;

const FEW: usize = 1_000;
const ROUNDS: usize = 40;
const WARM_ROUNDS: usize = 3;

/// Step, bare commands, and maximum cost as a multiple of these.
const TARGETS: [(&str, &str, f64); 4] = [
    ("put", "SET NX + ZADD", 1.6),
    ("pump", "ZRANGEBYSCORE + RPUSH + ZREM", 1.5),
    ("reserve", "LPOP + MGET + ZADD", 2.0),
    ("ack", "ZREM + UNLINK", 2.6),
];
const ALL_FOUR: f64 = 1.75;
const GROWTH: f64 = 1.6;
/// Maximum cost of a call of one message, as a multiple of its bare commands.
const SINGLE: f64 = 3.5;
const STEPS: [&str; 4] = ["put", "pump", "reserve", "ack"];
/// Maximum extra cost of own ids, and of groups, in calls of a hundred, as multiples of generated ids.
const ADDED: [(&str, Ids, f64); 4] =
    [("put", Ids::Own, 1.15), ("put", Ids::Grouped, 1.5), ("ack", Ids::Own, 2.0), ("ack", Ids::Grouped, 2.5)];
const MARKER_US: f64 = 1.0;
/// With fewer messages, fixed memory outweighs memory per message.
const ENOUGH_FOR_BYTES: usize = 100_000;
const PLAIN_BYTES: f64 = 480.0;
const DICTIONARY_BYTES: f64 = 320.0;

type Medians = BTreeMap<&'static str, f64>;

#[tokio::main]
async fn main() {
    let asked = std::env::args().nth(1);
    if asked.as_deref() == Some("bodies") {
        return bodies::print().await;
    }
    let many = asked.map_or(1_000_000, |n| n.parse().expect("a number of messages, or \"bodies\""));
    let (mut small, mut bare_small) = (Shard::filled(FEW).await, Bare::filled(FEW).await);
    let (mut large, mut bare_large) = tokio::join!(Shard::filled(many), Bare::filled(many));
    let mut calls = Calls::start(FEW).await;
    let (plain, bare) = (large.server.bytes_of(many).await, bare_large.server.bytes_of(many).await);
    for round in 0..WARM_ROUNDS + ROUNDS {
        if round == WARM_ROUNDS {
            [&mut small.server, &mut large.server].into_iter().for_each(server::Server::forget);
            [&mut bare_small.server, &mut bare_large.server].into_iter().for_each(server::Server::forget);
            calls.forget();
        }
        small.round(round).await;
        bare_small.round(round).await;
        large.round(round).await;
        bare_large.round(round).await;
        calls.round().await;
    }
    let (few_costs, many_costs) = (small.server.medians(), large.server.medians());
    let (few_bare, many_bare) = (bare_small.server.medians(), bare_large.server.medians());
    beside_bare(many, &many_costs, &many_bare);
    beside_bare(FEW, &few_costs, &few_bare);
    growth(many, &few_costs, &many_costs);
    println!("\nThe bare commands themselves:");
    growth(many, &few_bare, &many_bare);
    single_calls(&calls);
    kinds_of_ids(&calls, &calls::ends_of_markers(FEW).await);
    if many >= ENOUGH_FOR_BYTES {
        bytes(plain, memory::bytes_with_dictionary(many).await, bare);
    }
    bodies::print().await;
}

fn single_calls(calls: &Calls) {
    println!("\n1 shard, {FEW} pending, one message a call, {} of them in a pipeline:\n", scripts::BATCH);
    println!("| ids | groups | call | µs | bare | ratio | target |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for ids in ids::KINDS {
        for step in STEPS {
            let row = (ids, 1, step);
            let (Some(cost), Some(least)) = (calls.costs.median(row), calls.least.median(row)) else {
                continue;
            };
            let (columns, ratio) = (ids.columns(), cost / least);
            let note = missed(ratio, SINGLE);
            println!("| {columns} | {step} | {cost:.1} | {least:.1} | {ratio:.1} | ≤ {SINGLE}{note} |");
        }
    }
}

fn kinds_of_ids(calls: &Calls, ends: &BTreeMap<Ids, f64>) {
    println!("\n1 shard, {FEW} pending, {} messages a call:\n", scripts::BATCH);
    println!("| ids | groups | call | µs a message | × generated ids | target |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for ids in ids::KINDS {
        for step in STEPS {
            let cost = |ids| calls.costs.median((ids, scripts::BATCH, step));
            let (Some(own), Some(generated)) = (cost(ids), cost(Ids::Generated)) else { continue };
            let asked = ADDED.iter().find(|(of, kind, _)| (*of, *kind) == (step, ids));
            let note = asked
                .map_or(String::new(), |(.., most)| format!("≤ {most}{}", missed(own / generated, *most)));
            println!("| {} | {step} | {own:.2} | {:.2} | {note} |", ids.columns(), own / generated);
        }
        if let Some(cost) = ends.get(&ids) {
            let (columns, each, note) = (ids.columns(), scripts::PUMP_BATCH, missed(*cost, MARKER_US));
            println!("| {columns} | end of a marker, {each} a call | {cost:.2} | | ≤ {MARKER_US} µs{note} |");
        }
    }
}

fn beside_bare(pending: usize, costs: &Medians, bare: &Medians) {
    println!(
        "\n1 shard, generated ids without groups, {pending} pending, {} messages a call (pump {}):\n",
        scripts::BATCH,
        scripts::PUMP_BATCH
    );
    println!("| step | µs a message | bare commands | bare | ratio | target |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let row = |step: &str, commands: &str, cost: f64, least: f64, target: f64| {
        let ratio = cost / least;
        println!(
            "| {step} | {cost:.2} | {commands} | {least:.2} | {ratio:.2} | ≤ {target}{} |",
            missed(ratio, target)
        );
    };
    for (step, commands, target) in TARGETS {
        row(step, commands, costs[step], bare[step], target);
    }
    let (put, at_once) = (costs["put"], bare["put, one ZADD"]);
    println!("| put | {put:.2} | SET NX + one ZADD for all | {at_once:.2} | {:.2} | |", put / at_once);
    let all = |costs: &Medians| TARGETS.iter().map(|(step, ..)| costs[step]).sum::<f64>();
    row("all four", "", all(costs), all(bare), ALL_FOUR);
}

fn growth(many: usize, few_costs: &Medians, many_costs: &Medians) {
    println!(
        "\n1 shard, generated ids, groups only where a row says so:\n\n| script | µs, {FEW} pending | µs, {many} pending | ratio, target ≤ {GROWTH} |"
    );
    println!("| --- | --- | --- | --- |");
    for (row, one) in few_costs {
        let (two, ratio) = (many_costs[row], many_costs[row] / one);
        println!("| {row} | {one:.2} | {two:.2} | {ratio:.2}{} |", missed(ratio, GROWTH));
    }
}

fn bytes(plain: f64, with_dictionary: f64, bare: f64) {
    println!(
        "\n1 shard, generated ids without groups:\n\n| a pending order of {} bytes | bytes | asked for |",
        server::PAYLOAD_BYTES
    );
    println!("| --- | --- | --- |");
    println!("| plain | {plain:.0} | ≤ {PLAIN_BYTES}{} |", missed(plain, PLAIN_BYTES));
    let note = missed(with_dictionary, DICTIONARY_BYTES);
    println!("| with a trained dictionary | {with_dictionary:.0} | ≤ {DICTIONARY_BYTES}{note} |");
    println!("| bare string and sorted set | {bare:.0} | |");
}

fn missed(figure: f64, target: f64) -> &'static str {
    if figure > target { " (missed)" } else { "" }
}
