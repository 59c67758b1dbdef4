//! The client of a deployment, with the connection to the Redis that keeps the deployment.

use crate::calls::Calls;
use crate::durable::Confirmation;
use crate::error::Error;
use crate::growth::Growth;
use crate::link::LinkSettings;
use crate::name::process_name;
use crate::options::PAYLOAD;
use crate::payloads::Payloads;
use crate::role::Role;
use crate::script_link::ScriptLink;
use crate::server;
use crate::setters::setters;
use crate::topology::{NodeMap, Nodes};
use delayq_core::id::Namespace;
use delayq_core::identity::DeploymentId;
use delayq_core::keys::Keys;
use delayq_core::layout::Layout;
use delayq_core::message::{DEFAULT_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES};
use delayq_core::script::Scripts;
use delayq_core::shard::ShardCount;
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// The deployment's name and address.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The Redis that keeps the deployment.
    pub link: LinkSettings,
    /// Several Redises that keep the deployment together, instead of the Redis of `link`; `None`, the default: one
    /// Redis. Each call has the deadline of the first Redis.
    pub nodes: Option<NodeMap>,
    /// The prefix of the deployment's keys. Default `dq`.
    pub namespace: Namespace,
    /// Number of shards, now or before a growth: once asked, Redis knows better. Default [`ShardCount::DEFAULT`].
    pub shards: ShardCount,
    /// Maximum bytes of a payload, 1 to 1 MiB. Default 256 KiB.
    pub max_payload_bytes: usize,
    /// The name of this process: a message's history records the name of each lease holder. At most 100 bytes are kept;
    /// empty: no name is recorded. Default `program@host:pid`.
    pub name: String,
    /// The role of this program: a Redis that denies a command of the role is refused. `None`, the default: any role.
    pub role: Option<Role>,
}

/// A deployment, as used by a `Producer`, a `Consumer` and an `Admin`. Cheap to clone: all clones share one connection.
#[derive(Clone)]
pub struct Client {
    pub(crate) calls: Calls,
    pub(crate) payloads: Payloads,
    pub(crate) max_payload_bytes: usize,
    pub(crate) name: Arc<str>,
    pub(crate) role: Option<Role>,
}

// === impl Settings ===

impl Settings {
    /// The defaults for a Redis, given as an address or as complete settings of the connection.
    pub fn new(link: impl Into<LinkSettings>) -> Self {
        Self {
            link: link.into(),
            nodes: None,
            namespace: Namespace::default(),
            shards: ShardCount::default(),
            max_payload_bytes: DEFAULT_PAYLOAD_BYTES,
            name: process_name(),
            role: None,
        }
    }

    /// The defaults for several Redises.
    pub fn of_nodes(nodes: NodeMap) -> Self {
        let link = nodes.nodes()[0].link.clone();
        Self { nodes: Some(nodes), ..Self::new(link) }
    }

    /// Does not connect.
    fn check(&self) -> Result<(), Error> {
        PAYLOAD.check(self.max_payload_bytes)?;
        let links = self.nodes.iter().flat_map(NodeMap::nodes).map(|node| &node.link);
        links.chain([&self.link]).try_for_each(LinkSettings::check)
    }

    setters! {
        namespace: Namespace,
        shards: ShardCount,
        max_payload_bytes: usize,
        name: impl Into<String> => name.into(),
        role: Role => Some(role),
    }
}

// === impl Client ===

impl Client {
    /// A client that connects on first use. An option outside its range makes that first use fail.
    pub fn new(settings: Settings) -> Self {
        Self::with_scripts(settings, Arc::new(Scripts::published()))
    }

    /// Connects, and refuses a Redis that would lose messages, denies a command, or keeps another deployment. A
    /// deployment that was not created yet is no error, nor are silent cluster nodes while other nodes answer.
    ///
    /// # Errors
    /// [`Error::Option`] if an option is outside its range; [`Error::Unfit`] names the setting and the remedy;
    /// [`Error::Deployment`] if the deployment never had this number of shards; other errors if Redis cannot be
    /// reached.
    pub async fn connect(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let client = Self::new(settings);
        server::check_usable(&client.calls, client.role).await?;
        Ok(client)
    }

    /// A client with custom scripts instead of the published scripts, for tests.
    pub fn with_scripts(settings: Settings, scripts: Arc<Scripts>) -> Self {
        let Settings { link, nodes, namespace, shards, max_payload_bytes, name, role } = settings;
        let scripts = ScriptLink::new(Nodes::new(link, nodes, Keys::new(namespace)), scripts);
        let calls = Calls::new(scripts, shards);
        Self { payloads: Payloads::new(calls.clone()), calls, max_payload_bytes, name: name.into(), role }
    }

    /// The same deployment on a separate connection: for calls that must not wait behind the answers to other calls.
    #[must_use]
    pub fn apart(&self) -> Self {
        let calls = self.calls.apart();
        Self { payloads: Payloads::new(calls.clone()), calls, ..self.clone() }
    }

    /// The same connection with another maximum for the payloads of puts, at most 1 MiB.
    #[must_use]
    pub fn with_max_payload(&self, max_payload_bytes: usize) -> Self {
        Self { max_payload_bytes: max_payload_bytes.min(MAX_PAYLOAD_BYTES), ..self.clone() }
    }

    /// Reports each confirmation of writes, for topics that ask for durability: for metrics. Only the first observer of
    /// a client and its clones receives the reports.
    pub fn observe_confirmations(&self, observer: impl Fn(Confirmation) + Send + Sync + 'static) {
        self.calls.durable().observe(Box::new(observer));
    }

    /// The Redis's address, without secrets.
    pub fn address(&self) -> String {
        self.calls.nodes().address()
    }

    /// The nodes, if several Redises keep the deployment.
    pub fn nodes(&self) -> Option<&NodeMap> {
        self.calls.nodes().map()
    }

    /// The prefix of the deployment's keys.
    pub fn namespace(&self) -> &Namespace {
        self.calls.keys().namespace()
    }

    /// The known number of shards: the configured number until Redis was asked; after a growth, the new number as soon
    /// as any call has met the growth. [`Admin::layout`](crate::admin::Admin::layout) asks Redis.
    pub fn shards(&self) -> ShardCount {
        self.calls.shards()
    }

    /// The known placement of messages, now and before each growth.
    pub fn layout(&self) -> Layout {
        self.calls.known().layout
    }

    /// Follows the identity of the deployment, once a shard has reported the identity.
    pub fn identity(&self) -> watch::Receiver<Option<DeploymentId>> {
        self.calls.shared_layout().identities()
    }

    /// Follows the number of shards: for a process that serves all shards for a long time.
    pub fn growth(&self) -> Growth {
        self.calls.shared_layout().growth()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("link", self.calls.nodes().settings())
            .field("namespace", self.namespace())
            .field("shards", &self.shards())
            .finish()
    }
}
