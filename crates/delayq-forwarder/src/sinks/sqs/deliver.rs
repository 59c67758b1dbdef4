//! Sending: a message is delivered when the server has answered for its entry of a batch.

use super::{check, encode};
use crate::{CheckError, Parcel, Sink};
use async_trait::async_trait;
use delayq_service::brokers::{Outcomes, SqsAccess, SqsClient, sqs_queue};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct SqsSink {
    access: SqsAccess,
    client: SqsClient,
}

// === impl SqsSink ===

impl SqsSink {
    pub(crate) fn new(access: SqsAccess, deadline: Duration) -> Result<Self, String> {
        let client = SqsClient::new(&access, "delayq-forwarder", deadline.mul_f64(0.8))?;
        Ok(Self { access, client })
    }
}

#[async_trait]
impl Sink for SqsSink {
    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        let (access, unreachable) = (&self.access, |why| CheckError::Unreachable(why));
        let Some(queue) = destination else {
            return self
                .client
                .answers(access)
                .await
                .map(|()| Vec::new())
                .map_err(|fault| unreachable(fault.to_string()));
        };
        sqs_queue(queue).map_err(CheckError::Refused)?;
        self.client.url(access, queue).await.map_err(|fault| unreachable(fault.to_string()))?;
        match self.client.attributes(access, queue).await {
            Ok(attributes) => Ok(check::judge(queue, &attributes)),
            Err(fault) if fault.is_denied() => Ok(vec![check::unseen(queue, &fault.to_string())]),
            Err(fault) => Err(unreachable(fault.to_string())),
        }
    }

    async fn deliver(&self, parcels: &[Parcel], outcomes: &Arc<Outcomes>) {
        let letters: Vec<_> = parcels.iter().map(encode::letter).collect();
        self.client.publish(&self.access, &letters, outcomes).await;
    }
}
