//! Redis Clusters beside one plain Redis: what the same messages cost the servers and the client, by turns.
//!
//! A cluster of one master shows what cluster mode and the way to a node cost. Three masters on one machine also share its
//! cores and caches, and answer three calls where one Redis answers one.

use self::side::{Course, Side, Spent, Step};
use crate::bench::Bench;
use crate::error::BenchError;
use crate::figures::{Figure, Target, median};
use crate::shape::Shape;
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use futures_util::future::try_join_all;

mod failover;
mod side;

/// How often the three take turns in a run.
const ROUNDS: usize = 9;
/// What a message may cost the servers of a cluster, as a part of what it costs one Redis.
const OF_THE_SERVERS: f64 = 1.05;
/// The same of the client.
const OF_THE_CLIENT: f64 = 1.1;
/// Calls of a node in a round of pumps; a call that arrives in two parts is read twice.
const A_NODE: f64 = 1.05;

// === impl Bench ===

impl Bench {
    /// Every step of a message, over one Redis, a cluster of one master and one of three, with as many shards; and what a
    /// failover costs.
    ///
    /// # Errors
    /// A server cannot be used, or a message was lost or early.
    pub(crate) async fn cluster(&self, shape: Shape) -> Result<Vec<Figure>, BenchError> {
        let options = RedisOptions::default().append_only("everysec");
        let (alone, three) = (
            RedisServer::start_with(options.clone().cluster()).await,
            RedisCluster::start_with(options).await,
        );
        let nodes = |nodes: &[RedisServer]| nodes.iter().map(|node| node.address()).collect::<Vec<_>>();
        let mut sides = [
            Side::connect(self.url(), std::slice::from_ref(&self.address), shape).await?,
            Side::connect(format!("redis+cluster://{}", alone.address()), &[alone.address()], shape).await?,
            Side::connect(three.url(), &nodes(&three.nodes), shape).await?,
        ];
        let mut rounds = Vec::new();
        for round in 0..ROUNDS {
            rounds.push(self.round(&mut sides, round, shape).await?);
        }
        let mut figures = median(rounds);
        figures.extend(self.failovers(shape).await?);
        Ok(figures)
    }

    /// All steps on empty servers, each by one side after another, of which this one is the first.
    async fn round(&self, sides: &mut [Side], first: usize, shape: Shape) -> Result<Vec<Figure>, BenchError> {
        let mut courses = Vec::new();
        for side in sides {
            courses.push(side.begin(self.messages / 4).await?);
        }
        let mut figures = Vec::new();
        for step in Step::ALL {
            if step == Step::Pump {
                try_join_all(courses.iter().map(Course::due)).await?;
            }
            let mut spent = Vec::new();
            let first = first % courses.len();
            for side in (first..courses.len()).chain(0..first) {
                spent.push(courses[side].spend(step).await?);
            }
            spent.rotate_right(first);
            figures.extend(compared("one master", step, &spent[0], &spent[1], shape));
            figures.extend(compared("three masters", step, &spent[0], &spent[2], shape));
        }
        Ok(figures)
    }
}

/// What a step cost on a cluster, with what it cost on one Redis as the limit.
fn compared(masters: &str, step: Step, one: &Spent, cluster: &Spent, shape: Shape) -> Vec<Figure> {
    let figure = |what: &str, unit, cost: fn(&Spent) -> f64| {
        let name = format!("{masters}, {}: {what}", step.name());
        Figure::new(shape, name, unit, cost(cluster)).limit(cost(one))
    };
    let mut figures = vec![
        figure("calls of scripts", "", Spent::calls),
        figure("in scripts", "µs", Spent::scripts_us),
        figure("all servers", "µs", Spent::servers_us).target(Target::WithinLimit(OF_THE_SERVERS)),
        figure("the busiest server", "µs", Spent::busiest_us),
        figure("the client", "µs", Spent::client_us).target(Target::WithinLimit(OF_THE_CLIENT)),
    ];
    if step == Step::Pump {
        let name = format!("{masters}, calls of a node in a round of pumps");
        let reads = Figure::new(shape, name, "", cluster.reads);
        figures.push(reads.limit(one.reads).target(Target::AtMost(A_NODE)));
    }
    figures
}
