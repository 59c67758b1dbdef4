//! Reading keys at one revision, and the fenced transactions that write them.

use super::link::{EtcdError, EtcdLink};
use etcd_client::{
    Compare, CompareOp, GetOptions, KeyValue, PutOptions, SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) create_revision: i64,
    pub(crate) mod_revision: i64,
    pub(crate) lease: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    Key(String),
    Prefix(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// At this revision; 0: does not exist.
    Created(String, i64),
    /// At this revision; 0: does not exist.
    Written(String, i64),
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

// === impl EtcdLink ===

impl EtcdLink {
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

    /// A lease of 0: none. Returns the revision of the write.
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

    /// The key of the range with the latest creation before this revision, and the revision of the reading.
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
}

fn entries(response: &TxnOpResponse) -> Vec<Entry> {
    match response {
        TxnOpResponse::Get(get) => get.kvs().iter().map(Entry::from).collect(),
        TxnOpResponse::Put(_) | TxnOpResponse::Delete(_) | TxnOpResponse::Txn(_) => Vec::new(),
    }
}
