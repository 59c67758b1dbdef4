//! An independent reader: sees every write of a claim in etcd itself, and judges.

use etcd_client::{Client, EventType, GetOptions, WatchOptions};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Every change of the claims.
pub(crate) struct ClaimReader {
    claims: String,
    seen: Arc<Mutex<Seen>>,
    client: Client,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    /// The owner of each claim key, as text.
    holders: BTreeMap<String, String>,
    /// Claims that were written over another's, and renewals: neither may ever be.
    faults: Vec<String>,
    writes: usize,
    revision: i64,
}

impl ClaimReader {
    /// Reads all claims that an etcd of the test's own ever had, in the default namespace.
    pub(crate) async fn start(endpoint: &str) -> Self {
        let client = Client::connect([endpoint], None).await.unwrap();
        let since_the_first = WatchOptions::new().with_start_revision(1);
        Self::watch(client, "/delayq/dq/timer/claims/".to_owned(), since_the_first).await
    }

    /// Reads the claims under this prefix. Nothing may be there yet.
    pub(crate) async fn of(client: Client, claims: String) -> Self {
        Self::watch(client, claims, WatchOptions::new()).await
    }

    async fn watch(mut client: Client, claims: String, since: WatchOptions) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut watch = client.watch(claims.as_str(), Some(since.with_prefix())).await.unwrap();
        let noted = seen.clone();
        let task = tokio::spawn(async move {
            while let Ok(Some(message)) = watch.message().await {
                let mut seen = noted.lock().unwrap();
                for event in message.events() {
                    seen.note(event);
                }
            }
        });
        Self { claims, seen, client, task }
    }

    /// Checks that no claim was ever written over another, and that every shard is claimed now, by as many members.
    pub(crate) async fn judge(mut self, shards: usize, members: usize) {
        let options = GetOptions::new().with_prefix();
        let now = self.client.get(self.claims.as_str(), Some(options)).await.unwrap();
        let owners: BTreeMap<&[u8], usize> = now.kvs().iter().fold(BTreeMap::new(), |mut owners, kv| {
            *owners.entry(kv.value()).or_insert(0) += 1;
            owners
        });
        assert_eq!(now.kvs().len(), shards, "claimed shards");
        assert_eq!(owners.len(), members, "owners");
        assert!(
            owners.values().max().unwrap() - owners.values().min().unwrap() <= 1,
            "{:?}",
            owners.values()
        );
        let seen = self.seen.lock().unwrap();
        assert_eq!(seen.faults, Vec::<String>::new());
        assert!(
            seen.writes >= shards,
            "the reader saw {} writes up to revision {}",
            seen.writes,
            seen.revision
        );
        self.task.abort();
    }
}

impl Seen {
    fn note(&mut self, event: &etcd_client::Event) {
        let Some(kv) = event.kv() else { return };
        let key = kv.key_str().unwrap().to_owned();
        assert!(kv.mod_revision() >= self.revision, "etcd's own order");
        self.revision = kv.mod_revision();
        match event.event_type() {
            EventType::Put => {
                self.writes += 1;
                let owner = kv.value_str().unwrap().to_owned();
                if kv.version() != 1 || kv.lease() == 0 {
                    self.faults.push(format!("{key}: version {}, lease {}", kv.version(), kv.lease()));
                }
                if let Some(other) = self.holders.insert(key.clone(), owner) {
                    self.faults.push(format!("{key} was {other}'s"));
                }
            }
            EventType::Delete => drop(self.holders.remove(&key)),
        }
    }
}
