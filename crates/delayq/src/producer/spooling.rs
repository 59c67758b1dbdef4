//! The way past a Redis that cannot be used: what was to be done goes to the spool.

use super::Producer;
use crate::error::Error;
use delayq_core::id::Topic;
use delayq_core::message::Message;
use delayq_core::spool::{Spool, SpoolRecord};
use delayq_core::target::Target;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::cancel::CancelOutcome;
use delayq_core::verbs::put::PutOutcome;
use delayq_core::verbs::reschedule::{Reschedule, RescheduleOutcome};

// === impl Producer ===

impl Producer {
    /// Puts that could not reach Redis, first tried at `tried`.
    pub(super) async fn spool_or(
        &self,
        error: Error,
        messages: &[&Message],
        tried: UnixMillis,
    ) -> Vec<Result<PutOutcome, Error>> {
        let records = messages.iter().map(|message| SpoolRecord::put(message, error.fate(), tried)).collect();
        if self.takes(&error, records).await {
            messages.iter().map(|_| Ok(PutOutcome::Spooled)).collect()
        } else {
            messages.iter().map(|_| Err(error.clone())).collect()
        }
    }

    /// Cancels that could not reach Redis, or came before their put: that one may be waiting in the spool.
    pub(super) async fn spool_cancels(
        &self,
        topic: &Topic,
        targets: &[Target],
        mut answers: Vec<Result<CancelOutcome, Error>>,
        tried: UnixMillis,
    ) -> Vec<Result<CancelOutcome, Error>> {
        for (target, answer) in targets.iter().zip(&mut answers) {
            let spooled = match answer {
                Ok(CancelOutcome::Unknown) => match &self.spool {
                    Some(spool) => {
                        waits(spool.append_behind(SpoolRecord::cancel(topic, target, tried)).await)
                    }
                    None => false,
                },
                Err(error) => self.takes(error, vec![SpoolRecord::cancel(topic, target, tried)]).await,
                Ok(_) => false,
            };
            if spooled {
                *answer = Ok(CancelOutcome::Spooled);
            }
        }
        answers
    }

    /// Reschedules that could not reach Redis, or came before their put.
    pub(super) async fn spool_reschedules(
        &self,
        topic: &Topic,
        changes: &[(Target, Reschedule)],
        mut answers: Vec<Result<RescheduleOutcome, Error>>,
        tried: UnixMillis,
    ) -> Vec<Result<RescheduleOutcome, Error>> {
        for ((target, change), answer) in changes.iter().zip(&mut answers) {
            let spooled = match answer {
                Ok(RescheduleOutcome::Unknown) => match &self.spool {
                    Some(spool) => waits(
                        spool.append_behind(SpoolRecord::reschedule(topic, target, *change, tried)).await,
                    ),
                    None => false,
                },
                Err(error) => {
                    self.takes(error, vec![SpoolRecord::reschedule(topic, target, *change, tried)]).await
                }
                Ok(_) => false,
            };
            if spooled {
                *answer = Ok(RescheduleOutcome::Spooled);
            }
        }
        answers
    }

    /// Whether the spool took the records: there is one, it is an outage, and the disk has them.
    async fn takes(&self, error: &Error, records: Vec<SpoolRecord>) -> bool {
        let Some(spool) = self.outage_spool(error) else { return false };
        match spool.append(records).await {
            Ok(()) => true,
            Err(refused) => {
                tracing::error!(%refused, "the spool does not take what Redis cannot");
                false
            }
        }
    }

    fn outage_spool(&self, error: &Error) -> Option<&dyn Spool> {
        self.spool.as_deref().filter(|_| error.is_outage())
    }
}

/// Whether the spool had the put, and has what was asked behind it now.
fn waits(answer: Result<bool, Box<dyn std::error::Error + Send + Sync>>) -> bool {
    answer.unwrap_or_else(|error| {
        tracing::error!(%error, "the spool could not be asked whether the put is in it");
        false
    })
}
