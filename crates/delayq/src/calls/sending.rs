//! Calls that are no items of a load: each rides alone.

use super::grouping::Batch;
use super::ride::{Ride, Rules};
use super::scatter::Scattered;
use super::way::Calls;
use crate::error::Error;
use crate::link::Link;
use delayq_core::call::Call;
use delayq_core::reply::{ReplyError, Value};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

// === impl Calls ===

impl Calls {
    pub(crate) async fn ask<A>(
        &self,
        call: Call,
        read: impl FnOnce(Value) -> Result<A, ReplyError>,
    ) -> Result<A, Error> {
        let answer = self.send_all(vec![call]).await.pop().expect("as many answers as calls");
        Ok(read(answer?)?)
    }

    pub(crate) async fn ask_all<A>(
        &self,
        calls: Vec<Call>,
        read: impl Fn(Value) -> Result<A, ReplyError>,
    ) -> Vec<Result<A, Error>> {
        self.send_all(calls).await.into_iter().map(|reply| Ok(read(reply?)?)).collect()
    }

    pub(crate) async fn send_all(&self, calls: Vec<Call>) -> Vec<Result<Value, Error>> {
        self.ride_alone(Rules::once(self), calls).await
    }

    /// Sends calls under the layouts given in the calls, and does not follow refusals of the layout.
    pub(crate) async fn send_plain(&self, calls: Vec<Call>) -> Vec<Result<Value, Error>> {
        self.ride_plain(calls, None, self.deadline()).await
    }

    /// Asks this Redis even if another node has the shards.
    pub(crate) async fn send_at(&self, link: &Link, calls: Vec<Call>) -> Vec<Result<Value, Error>> {
        self.ride_plain(calls, Some(link), self.deadline()).await
    }

    pub(super) fn deadline(&self) -> Instant {
        Rules::once(self).until
    }

    /// Sends calls unchanged. Boxed, because the code that follows refusals uses this function recursively.
    pub(super) fn ride_plain<'r>(
        &'r self,
        calls: Vec<Call>,
        at: Option<&'r Link>,
        until: Instant,
    ) -> BoxFuture<'r, Vec<Result<Value, Error>>> {
        let rules = Rules { until, follows: false, at, ..Rules::once(self) };
        self.ride_alone(rules, calls).boxed()
    }

    async fn ride_alone(&self, rules: Rules<'_>, calls: Vec<Call>) -> Vec<Result<Value, Error>> {
        let (items, keyed) = ((0..calls.len()).collect(), (0..calls.len()).map(|i| (i, 0)).collect());
        let mut calls: Vec<Option<Call>> = calls.into_iter().map(Some).collect();
        let request = |batch: &Batch<usize>| calls[batch.key].take().expect("a call is made once");
        let mut alone = Scattered::new(keyed, request, |_: &Batch<usize>, reply| Ok(vec![reply]));
        Ride::new(self, rules, items).finish(&mut alone).await;
        alone.answers()
    }
}
