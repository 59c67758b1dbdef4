//! Operations: a tenant acts on the names of the tenant, and sees the operations of the tenant.

use super::Scope;
use crate::operations::{Begun, Estimate, Operation, Order, estimate};
use crate::problem::Problem;
use crate::receipts::random;

const ID_LENGTH: usize = 16;
/// Messages of a call that counts.
const PAGE: usize = 100;

// === impl Scope ===

impl Scope {
    /// An order with the names in Redis.
    pub(crate) fn stored_order(&self, order: Order) -> Result<Order, Problem> {
        let topics =
            order.topics.iter().map(|topic| self.names.stored_topic(topic)).collect::<Result<_, _>>()?;
        let group = order.group.as_ref().map(|group| self.names.stored_group(group)).transpose()?;
        Ok(Order { topics, group, tenant: self.names.tenant().cloned(), ..order })
    }

    /// Counts the messages that a stored order matches; the sample has the names that the caller knows.
    pub(crate) async fn estimate(&self, order: &Order) -> Result<Estimate, Problem> {
        let most = self.most_of(PAGE);
        self.step(most).await?;
        let mut estimate = self.answer(estimate(&self.app.unscoped().admin, order, most).await)?;
        estimate.sample = estimate.sample.into_iter().filter_map(|listed| self.names.shown(listed)).collect();
        Ok(estimate)
    }

    /// `None`: as many operations as may run are under way.
    pub(crate) async fn begin(
        &self,
        order: Order,
        by: Option<String>,
        estimate: &Estimate,
    ) -> Result<Option<Operation>, Problem> {
        let id = random()?[..ID_LENGTH].to_owned();
        let operation = Operation::new(id, order, by, estimate);
        Ok(match self.answer(self.app.operations.begin(&operation).await)? {
            Begun::InSlot => Some(operation.seen_by(&self.names)),
            Begun::Full => None,
        })
    }

    /// The latest first.
    pub(crate) async fn operations(&self) -> Result<Vec<Operation>, Problem> {
        let all = self.answer(self.app.operations.store().all().await)?;
        let own = all.into_iter().filter(|operation| self.owns(operation));
        Ok(own.map(|operation| operation.seen_by(&self.names)).collect())
    }

    pub(crate) async fn operation(&self, id: &str) -> Result<Option<Operation>, Problem> {
        let found = self.answer(self.app.operations.store().get(id).await)?;
        let own = found.filter(|operation| self.owns(operation));
        Ok(own.map(|operation| operation.seen_by(&self.names)))
    }

    pub(crate) async fn abort(&self, id: &str, by: Option<&str>) -> Result<Option<Operation>, Problem> {
        if self.operation(id).await?.is_none() {
            return Ok(None);
        }
        let aborted = self.answer(self.app.operations.store().abort(id, by).await)?;
        Ok(aborted.map(|operation| operation.seen_by(&self.names)))
    }

    fn owns(&self, operation: &Operation) -> bool {
        self.names.tenant().is_none_or(|tenant| operation.order.tenant.as_ref() == Some(tenant))
    }
}
