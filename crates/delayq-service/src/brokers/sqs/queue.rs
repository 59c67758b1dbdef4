//! Receiving from a queue.

use super::{SqsAccess, SqsClient, SqsFault, SqsLetter, SqsRecord};
use crate::brokers::Outcomes;
use futures_util::future::try_join_all;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::Duration;

/// Maximum time of a call. A receive waits on the server for records for most of that.
const PATIENCE: Duration = Duration::from_secs(20);
const WAIT_SECS: u64 = 15;
/// Maximum number of records in a call.
const MOST: usize = 10;
/// Maximum number of calls at once for the records of one step.
const AT_ONCE: usize = 8;

/// A queue that exists.
pub struct SqsQueue {
    client: SqsClient,
    access: SqsAccess,
    name: String,
    url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Received {
    #[serde(default)]
    messages: Vec<SqsRecord>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Changed {
    #[serde(default)]
    failed: Vec<Unchanged>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Unchanged {
    id: String,
    code: String,
    #[serde(default)]
    message: String,
}

/// The handle of a record that the server did not change, and why.
pub type SqsFailure = (String, String);

// === impl SqsQueue ===

impl SqsQueue {
    /// Checks that the queue exists, and the queue of dead records; `by` is the client's name.
    ///
    /// # Errors
    /// Either does not exist, or the server cannot be used.
    pub async fn open(access: SqsAccess, by: &str, [name, dead]: [&str; 2]) -> Result<Self, SqsFault> {
        let client = SqsClient::new(&access, by, PATIENCE).map_err(SqsFault::unsent)?;
        let url = client.url(&access, name).await?;
        client.url(&access, dead).await?;
        Ok(Self { client, access, name: name.to_owned(), url })
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for records, which are hidden from others for this time.
    ///
    /// # Errors
    /// Why the call failed.
    pub async fn receive(&self, hidden: Duration) -> Result<Vec<SqsRecord>, String> {
        let body = json!({
            "QueueUrl": self.url,
            "MaxNumberOfMessages": MOST,
            "WaitTimeSeconds": WAIT_SECS,
            "VisibilityTimeout": hidden.as_secs(),
            "AttributeNames": ["All"],
            "MessageAttributeNames": ["All"],
        });
        let received: Result<Received, _> = self.call("ReceiveMessage", &body).await;
        received.map(|received| received.messages)
    }

    /// Deletes records, and returns those that were not.
    ///
    /// # Errors
    /// Why a call failed.
    pub async fn delete(&self, receipts: &[String]) -> Result<Vec<SqsFailure>, String> {
        self.change("DeleteMessageBatch", receipts, &json!({})).await
    }

    /// Hides records for this time from now on, and returns those that were not.
    ///
    /// # Errors
    /// Why a call failed.
    pub async fn hide(&self, receipts: &[String], time: Duration) -> Result<Vec<SqsFailure>, String> {
        let of_entry = json!({ "VisibilityTimeout": time.as_secs() });
        self.change("ChangeMessageVisibilityBatch", receipts, &of_entry).await
    }

    async fn change(
        &self,
        action: &str,
        receipts: &[String],
        of_entry: &Value,
    ) -> Result<Vec<SqsFailure>, String> {
        let mut failures = Vec::new();
        for some in receipts.chunks(MOST * AT_ONCE) {
            let calls = some.chunks(MOST).map(|some| self.change_some(action, some, of_entry));
            failures.extend(try_join_all(calls).await?.into_iter().flatten());
        }
        Ok(failures)
    }

    async fn change_some(
        &self,
        action: &str,
        receipts: &[String],
        of_entry: &Value,
    ) -> Result<Vec<SqsFailure>, String> {
        let entry = |(index, receipt): (usize, &String)| {
            let mut entry = of_entry.clone();
            entry["Id"] = index.to_string().into();
            entry["ReceiptHandle"] = receipt.as_str().into();
            entry
        };
        let entries: Vec<Value> = receipts.iter().enumerate().map(entry).collect();
        let Changed { failed } =
            self.call(action, &json!({ "QueueUrl": self.url, "Entries": entries })).await?;
        let failure = |Unchanged { id, code, message }| {
            let receipt: &String = receipts.get(str::parse::<usize>(&id).ok()?)?;
            Some((receipt.clone(), format!("{code}: {message}")))
        };
        Ok(failed.into_iter().filter_map(failure).collect())
    }

    /// Sends messages over the same client, and stores the outcome of each at its index.
    pub async fn publish(&self, letters: &[SqsLetter<'_>], outcomes: &Outcomes) {
        self.client.publish(&self.access, letters, outcomes).await;
    }

    /// Number of records that wait, and of those that some receiver holds.
    ///
    /// # Errors
    /// The queue does not exist, or may not be seen.
    pub async fn counts(&self) -> Result<(u64, u64), SqsFault> {
        let attributes = self.client.attributes(&self.access, &self.name).await?;
        let number = |name: &str| attributes.get(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let waiting = number("ApproximateNumberOfMessages") + number("ApproximateNumberOfMessagesDelayed");
        Ok((waiting, number("ApproximateNumberOfMessagesNotVisible")))
    }

    async fn call<T: DeserializeOwned>(&self, action: &str, body: &Value) -> Result<T, String> {
        let called = self.client.call(&self.access, action, body).await;
        called.map_err(|fault| self.client.lost(&self.name, fault).to_string())
    }
}
