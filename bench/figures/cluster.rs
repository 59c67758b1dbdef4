//! A Redis Cluster of three masters beside one plain Redis: what the same messages cost the servers and the client, by turns.

use self::side::{Course, Side, Spent, Step};
use crate::bench::Bench;
use crate::error::BenchError;
use crate::figures::{Figure, Target, median};
use crate::shape::Shape;
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_server::RedisOptions;
use futures_util::future::try_join_all;

mod failover;
mod side;

/// How often the two take turns in a run.
const ROUNDS: usize = 8;
/// What a message may cost in the scripts of a cluster, as a part of what it costs in those of one Redis.
const IN_SCRIPTS: f64 = 1.05;
/// The same of the client.
const OF_THE_CLIENT: f64 = 1.1;
/// Calls of a node in a round of pumps; a call that arrives in two parts is read twice.
const A_NODE: f64 = 1.05;

// === impl Bench ===

impl Bench {
    /// Every step of a message, over three masters and over one Redis with as many shards; and what a failover costs.
    ///
    /// # Errors
    /// A server cannot be used, or a message was lost or early.
    pub(crate) async fn cluster(&self, shape: Shape) -> Result<Vec<Figure>, BenchError> {
        let servers = RedisCluster::start_with(RedisOptions::default().append_only("everysec")).await;
        let one = Side::connect(self.url(), std::iter::once(self.address.clone()), shape).await?;
        let addresses = servers.nodes.iter().map(|node| node.address());
        let mut sides = [one, Side::connect(servers.url(), addresses, shape).await?];
        let mut rounds = Vec::new();
        for round in 0..ROUNDS {
            rounds.push(self.round(&mut sides, round % 2, shape).await?);
        }
        let mut figures = median(rounds);
        figures.extend(self.failovers(shape).await?);
        Ok(figures)
    }

    /// All steps on empty servers, each by one Redis and by three masters, of which this one is the first.
    async fn round(
        &self,
        [one, three]: &mut [Side; 2],
        first: usize,
        shape: Shape,
    ) -> Result<Vec<Figure>, BenchError> {
        let count = self.messages / 4;
        let mut courses = [one.begin(count).await?, three.begin(count).await?];
        let mut figures = Vec::new();
        for step in Step::ALL {
            if step == Step::Pump {
                try_join_all(courses.iter().map(Course::due)).await?;
            }
            let mut spent = Vec::new();
            for side in [first, 1 - first] {
                spent.push(courses[side].spend(step).await?);
            }
            if first == 1 {
                spent.reverse();
            }
            figures.extend(compared(step, &spent[0], &spent[1], shape));
        }
        Ok(figures)
    }
}

/// What a step cost on three masters, with what it cost on one Redis as the limit.
fn compared(step: Step, one: &Spent, three: &Spent, shape: Shape) -> Vec<Figure> {
    let figure = |what: &str, unit, cost: fn(&Spent) -> f64| {
        let name = format!("three masters, {}: {what}", step.name());
        Figure::new(shape, name, unit, cost(three)).limit(cost(one))
    };
    let mut figures = vec![
        figure("calls of scripts", "", Spent::calls),
        figure("in scripts", "µs", Spent::scripts_us).target(Target::WithinLimit(IN_SCRIPTS)),
        figure("all servers", "µs", Spent::servers_us),
        figure("the busiest server", "µs", Spent::busiest_us),
        figure("the client", "µs", Spent::client_us).target(Target::WithinLimit(OF_THE_CLIENT)),
    ];
    if step == Step::Pump {
        let reads = Figure::new(shape, "three masters, calls of a node in a round of pumps", "", three.reads);
        figures.push(reads.limit(one.reads).target(Target::AtMost(A_NODE)));
    }
    figures
}
