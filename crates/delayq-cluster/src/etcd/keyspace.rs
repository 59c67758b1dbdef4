//! Reading keys at one revision, and the fenced transactions that write them.

use super::link::{EtcdError, Link};
use etcd_client::{
    Compare, CompareOp, GetOptions, KeyValue, PutOptions, SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse,
};

/// A key as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) create_revision: i64,
    pub(crate) mod_revision: i64,
    pub(crate) lease: i64,
}

/// What to read: one key, or all that begin with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    Key(String),
    Prefix(String),
}

/// What must still be so for a write to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// The key was created at this revision (0: does not exist).
    Created(String, i64),
    /// The key was last written at this revision (0: does not exist).
    Written(String, i64),
}

/// What became of one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimAnswer {
    /// The key is ours, since this revision.
    Won(i64),
    /// Another's key was there at this revision.
    Held(i64),
}

// === impl Entry ===

impl From<&KeyValue> for Entry {
    fn from(kv: &KeyValue) -> Self {
        Self {
            key: kv.key().to_vec(),
            value: kv.value().to_vec(),
            create_revision: kv.create_revision(),
            mod_revision: kv.mod_revision(),
            lease: kv.lease(),
        }
    }
}

// === impl Fence ===

impl Fence {
    fn compare(&self) -> Compare {
        match self {
            Self::Created(key, revision) => {
                Compare::create_revision(key.as_str(), CompareOp::Equal, *revision)
            }
            Self::Written(key, revision) => Compare::mod_revision(key.as_str(), CompareOp::Equal, *revision),
        }
    }
}

// === impl Link ===

impl Link {
    /// Reads several ranges at one revision.
    pub(crate) async fn read(&self, ranges: &[Range]) -> Result<(i64, Vec<Vec<Entry>>), EtcdError> {
        let gets: Vec<TxnOp> = ranges
            .iter()
            .map(|range| match range {
                Range::Key(key) => TxnOp::get(key.as_str(), None),
                Range::Prefix(prefix) => TxnOp::get(prefix.as_str(), Some(GetOptions::new().with_prefix())),
            })
            .collect();
        let answer =
            self.ask(|mut client| async move { client.txn(Txn::new().and_then(gets)).await }).await?;
        let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
        let entries = answer.op_responses().iter().map(entries).collect();
        Ok((revision, entries))
    }

    /// Writes a key under a lease (0: none) if every fence holds; answers the revision it was written at.
    pub(crate) async fn write(
        &self,
        fences: &[Fence],
        key: &str,
        value: Vec<u8>,
        lease: i64,
    ) -> Result<Option<i64>, EtcdError> {
        let compares: Vec<Compare> = fences.iter().map(Fence::compare).collect();
        let options = (lease != 0).then(|| PutOptions::new().with_lease(lease));
        let txn = Txn::new().when(compares).and_then([TxnOp::put(key, value, options)]);
        let answer = self.ask(|mut client| async move { client.txn(txn).await }).await?;
        self.note_write();
        Ok(answer.succeeded().then(|| answer.header().map_or(0, etcd_client::ResponseHeader::revision)))
    }

    /// The key of a range that was created last before this revision, and the revision of the reading.
    pub(crate) async fn created_before(
        &self,
        prefix: &str,
        revision: i64,
    ) -> Result<(Option<Entry>, i64), EtcdError> {
        let options = GetOptions::new()
            .with_prefix()
            .with_max_create_revision(revision - 1)
            .with_sort(SortTarget::Create, SortOrder::Descend)
            .with_limit(1);
        let answer = self.ask(|mut client| async move { client.get(prefix, Some(options)).await }).await?;
        let read_at = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
        Ok((answer.kvs().first().map(Entry::from), read_at))
    }

    /// Creates each key if it is under no lease (most often because it is absent), all in one request, each decided by itself;
    /// none if the fence does not hold.
    /// At most 100 keys: etcd takes 128 operations in a transaction, the inner ones included.
    pub(crate) async fn create_each(
        &self,
        fence: &Fence,
        keys: &[String],
        value: &[u8],
        lease: i64,
    ) -> Result<Option<Vec<ClaimAnswer>>, EtcdError> {
        let create = |key: &String| {
            let put = TxnOp::put(key.as_str(), value, Some(PutOptions::new().with_lease(lease)));
            // What no member wrote would keep every member out for good.
            let free = Compare::lease(key.as_str(), CompareOp::Equal, 0);
            let look = TxnOp::get(key.as_str(), None);
            TxnOp::txn(Txn::new().when([free]).and_then([put]).or_else([look]))
        };
        let each: Vec<TxnOp> = keys.iter().map(create).collect();
        let txn = Txn::new().when([fence.compare()]).and_then(each);
        let answer = self.ask(|mut client| async move { client.txn(txn).await }).await?;
        self.note_write();
        let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
        let decided = |response: &TxnOpResponse| claim_answer(response, revision, lease);
        Ok(answer.succeeded().then(|| answer.op_responses().iter().map(decided).collect()))
    }

    /// Deletes each key that is under this lease, all in one request. At most 100.
    pub(crate) async fn delete_each(&self, keys: &[String], lease: i64) -> Result<(), EtcdError> {
        let delete = |key: &String| {
            let ours = Compare::lease(key.as_str(), CompareOp::Equal, lease);
            TxnOp::txn(Txn::new().when([ours]).and_then([TxnOp::delete(key.as_str(), None)]))
        };
        let each: Vec<TxnOp> = keys.iter().map(delete).collect();
        let txn = Txn::new().and_then(each);
        self.ask(|mut client| async move { client.txn(txn).await }).await.map(|_| ())
    }

    /// What each endpoint says of itself, asked one after the other, each within the request deadline.
    pub(crate) async fn statuses(&self) -> Vec<(String, Result<(String, bool), EtcdError>)> {
        let mut statuses = Vec::new();
        for endpoint in &self.config().endpoints {
            let ask = async {
                let mut client = self.connect(endpoint).await?;
                let status = client.status().await.map_err(|e| EtcdError::of(&e))?;
                Ok((status.version().to_owned(), status.leader() != 0))
            };
            let deadline = *self.config().call_deadline;
            let silent = || Err(EtcdError::Silent(format!("no answer within {deadline:?}")));
            let status = tokio::time::timeout(deadline, ask).await.unwrap_or_else(|_| silent());
            statuses.push((endpoint.to_string(), status));
        }
        statuses
    }
}

fn entries(response: &TxnOpResponse) -> Vec<Entry> {
    match response {
        TxnOpResponse::Get(get) => get.kvs().iter().map(Entry::from).collect(),
        TxnOpResponse::Put(_) | TxnOpResponse::Delete(_) | TxnOpResponse::Txn(_) => Vec::new(),
    }
}

fn claim_answer(response: &TxnOpResponse, revision: i64, lease: i64) -> ClaimAnswer {
    let TxnOpResponse::Txn(inner) = response else { return ClaimAnswer::Held(revision) };
    if inner.succeeded() {
        return ClaimAnswer::Won(revision);
    }
    // A claim whose first answer was lost meets its own key.
    let holder = inner.op_responses().first().map(entries).and_then(|found| found.into_iter().next());
    match holder {
        Some(entry) if entry.lease == lease => ClaimAnswer::Won(entry.create_revision),
        _ => ClaimAnswer::Held(revision),
    }
}
