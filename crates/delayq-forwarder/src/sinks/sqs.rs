//! The sink `sqs`: queues of Amazon SQS, or of another server of its protocol.

#[cfg(feature = "sqs")]
mod check;
#[cfg(feature = "sqs")]
mod deliver;
#[cfg(feature = "sqs")]
mod encode;

#[cfg(feature = "sqs")]
pub(crate) use deliver::SqsSink;
