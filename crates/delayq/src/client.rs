//! The client: a deployment, and the connection to the Redis that keeps it.

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

/// Which deployment, and where it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The Redis that keeps it.
    pub link: LinkSettings,
    /// Several Redises that keep it together, instead of the one of `link`; `None`, the default: there is one. Each call
    /// has the deadline of the first.
    pub nodes: Option<NodeMap>,
    /// What its keys begin with. Default `dq`.
    pub namespace: Namespace,
    /// How many shards it has, or had before it grew: once asked, Redis knows better. Default
    /// [`ShardCount::DEFAULT`].
    pub shards: ShardCount,
    /// Maximum bytes of a payload, 1 to 1 MiB. Default 256 KiB.
    pub max_payload_bytes: usize,
    /// What this process calls itself: the history of a message names who leased it. At most 100 bytes are kept; empty: it
    /// does not say. Default `program@host:pid`.
    pub name: String,
    /// What this program does: a Redis that denies a command that it needs is refused. `None`, the default: any of it.
    pub role: Option<Role>,
}

/// A deployment, as a `Producer`, a `Consumer` and an `Admin` use it. Cheap to clone: all clones share one connection.
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
    /// The defaults for a Redis: its address, or all that is to be known about the connection.
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

    /// Checks that each option is in its range, without connecting.
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
    /// A client that connects on first use, which then fails if an option is outside its range.
    pub fn new(settings: Settings) -> Self {
        Self::with_scripts(settings, Arc::new(Scripts::published()))
    }

    /// Connects, and refuses a Redis that would lose messages, denies a command, or keeps another deployment. A
    /// deployment that was not created yet is no error, nor are nodes of a cluster that do not answer while others do.
    ///
    /// # Errors
    /// [`Error::Option`] if an option is outside its range; [`Error::Unfit`] names the setting and what to do;
    /// [`Error::Deployment`] if the deployment never had this number
    /// of shards; others if Redis cannot be reached.
    pub async fn connect(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let client = Self::new(settings);
        server::check_usable(&client.calls, client.role).await?;
        Ok(client)
    }

    /// A client with other scripts than the published ones, for tests.
    pub fn with_scripts(settings: Settings, scripts: Arc<Scripts>) -> Self {
        let Settings { link, nodes, namespace, shards, max_payload_bytes, name, role } = settings;
        let scripts = ScriptLink::new(Nodes::new(link, nodes, Keys::new(namespace)), scripts);
        let calls = Calls::new(scripts, shards);
        Self { payloads: Payloads::new(calls.clone()), calls, max_payload_bytes, name: name.into(), role }
    }

    /// The same deployment on its own connection: for calls that must not wait behind the answers to others.
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

    /// Has each confirmation of writes reported, of topics that ask for durability: for metrics. Only the first observer of
    /// a client and its clones is told.
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

    /// What the deployment's keys begin with.
    pub fn namespace(&self) -> &Namespace {
        self.calls.keys().namespace()
    }

    /// How many shards the deployment has, as far as is known: as configured until Redis was asked; after a growth, the
    /// new number once any call has met it. [`Admin::layout`](crate::admin::Admin::layout) asks.
    pub fn shards(&self) -> ShardCount {
        self.calls.shards()
    }

    /// Where messages belong, and belonged before a growth, as far as is known.
    pub fn layout(&self) -> Layout {
        self.calls.known().layout
    }

    /// Follows the identity of the deployment, once a shard has said it.
    pub fn identity(&self) -> watch::Receiver<Option<DeploymentId>> {
        self.calls.shared_layout().identities()
    }

    /// Follows the number of shards: for a process that serves all of them for a long time.
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
