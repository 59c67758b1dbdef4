//! The intake `sqs`: a queue of Amazon SQS, or of another server of its protocol.

mod config;
#[cfg(feature = "intake-sqs")]
mod held;
#[cfg(feature = "intake-sqs")]
mod source;

pub use config::SqsIntakeConfig;
#[cfg(feature = "intake-sqs")]
pub(crate) use source::SqsSource;
