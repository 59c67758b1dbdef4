//! The master that keeps a deployment, and new connections to this master.
//!
//! The sentinels' answer is verified on the new connection itself, before any write.

use super::cluster_url::ClusterUrl;
use super::marks::Marks;
use super::node::Node;
use super::sentinel_url::SentinelUrl;
use super::sentinels::{SentinelReport, Sentinels};
use super::settings::LinkSettings;
use super::term::Term;
use crate::error::Error;
use delayq_core::id::NodeName;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionInfo, Pipeline, Value};
use std::sync::Arc;
use tokio::time::timeout;

/// The master of a place; shared by all links of a client.
pub(crate) struct Master {
    settings: LinkSettings,
    name: Option<NodeName>,
    address: Arc<str>,
    source: AddressSource,
}

enum AddressSource {
    Fixed,
    Node(Box<ConnectionInfo>, OnDoubt),
    /// At the address that the sentinels name, if the deployment is there.
    Sentinels(Box<Sentinels>, Marks),
    /// Holds the reason.
    Unreadable(String),
}

pub(crate) struct NodeOfCluster {
    pub(crate) node: Node,
    pub(crate) info: ConnectionInfo,
    pub(crate) settings: LinkSettings,
    pub(crate) on_doubt: OnDoubt,
}

/// Has the cluster's slot map refreshed whenever a node is in doubt.
pub(crate) type OnDoubt = Box<dyn Fn() + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Connected {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) address: Arc<str>,
    /// `None` if there are no sentinels.
    pub(crate) term: Option<Term>,
}

// === impl Master ===

impl Master {
    pub(super) fn new(settings: LinkSettings, marks: Marks) -> Self {
        let source = if SentinelUrl::is_meant_by(&settings.url) {
            match settings.url.parse() {
                Ok(url) => AddressSource::Sentinels(Box::new(Sentinels::new(url, settings.clone())), marks),
                Err(why) => AddressSource::Unreadable(why),
            }
        } else if ClusterUrl::is_meant_by(&settings.url) {
            let why = || "this is the address of a whole cluster, expected a single Redis".to_owned();
            AddressSource::Unreadable(settings.url.parse::<ClusterUrl>().err().unwrap_or_else(why))
        } else {
            AddressSource::Fixed
        };
        Self { name: None, address: settings.address().into(), settings, source }
    }

    pub(super) fn named(name: &NodeName, settings: LinkSettings, marks: Marks) -> Self {
        let master = Self::new(settings, marks);
        let address = format!("{name} ({})", master.address).into();
        Self { name: Some(name.clone()), address, ..master }
    }

    pub(super) fn of_node(NodeOfCluster { node, info, settings, on_doubt }: NodeOfCluster) -> Self {
        let source = AddressSource::Node(Box::new(info), on_doubt);
        Self { name: None, address: node.to_string().into(), settings, source }
    }

    pub(crate) fn settings(&self) -> &LinkSettings {
        &self.settings
    }

    pub(crate) fn name(&self) -> Option<&NodeName> {
        self.name.as_ref()
    }

    /// Without secrets, after the name of a named Redis.
    pub(crate) fn address(&self) -> &Arc<str> {
        &self.address
    }

    /// Has the sentinels asked again before the next connection, or the cluster's slot map refreshed.
    pub(crate) fn doubt(&self) {
        match &self.source {
            AddressSource::Sentinels(sentinels, _) => sentinels.doubt(),
            AddressSource::Node(_, on_doubt) => on_doubt(),
            AddressSource::Fixed | AddressSource::Unreadable(_) => {}
        }
    }

    /// `None` if there are no sentinels.
    pub(super) async fn sentinels(&self) -> Option<Vec<SentinelReport>> {
        match &self.source {
            AddressSource::Sentinels(sentinels, _) => Some(sentinels.report().await),
            AddressSource::Fixed | AddressSource::Node(..) | AddressSource::Unreadable(_) => None,
        }
    }

    pub(crate) async fn connect(&self, config: &AsyncConnectionConfig) -> Result<Connected, Error> {
        match &self.source {
            AddressSource::Fixed => self.connect_at(self.settings.info()?, config).await,
            AddressSource::Node(info, _) => {
                self.connect_at((**info).clone(), config).await.inspect_err(|_| self.doubt())
            }
            AddressSource::Sentinels(sentinels, marks) => self.connect_by(sentinels, marks, config).await,
            AddressSource::Unreadable(why) => Err(self.unreachable(why.clone())),
        }
    }

    async fn connect_at(
        &self,
        info: ConnectionInfo,
        config: &AsyncConnectionConfig,
    ) -> Result<Connected, Error> {
        let at = info.addr().clone();
        let client = self.settings.client(info)?;
        match client.get_multiplexed_async_connection_with_config(config).await {
            Ok(connection) => Ok(Connected { connection, address: Arc::clone(&self.address), term: None }),
            Err(error) => Err(self.settings.unconnected(&self.address, &at, &error).await),
        }
    }

    async fn connect_by(
        &self,
        sentinels: &Sentinels,
        marks: &Marks,
        config: &AsyncConnectionConfig,
    ) -> Result<Connected, Error> {
        loop {
            let term = sentinels.term().await.map_err(|why| self.unreachable(why))?;
            let connect = timeout(
                self.settings.connect_timeout,
                self.connect_in(&term, (sentinels.url(), marks), config),
            );
            let connected = tokio::select! {
                biased;
                // The connection would lead to the former master.
                () = term.over() => continue,
                connected = connect => connected,
            };
            let late = || {
                let why = format!("no connection within {:?}", self.settings.connect_timeout);
                Error::Unreachable { address: term.address(&sentinels.url().service), why }
            };
            return connected.unwrap_or_else(|_| Err(late())).inspect_err(|_| sentinels.doubt());
        }
    }

    async fn connect_in(
        &self,
        term: &Term,
        (url, marks): (&SentinelUrl, &Marks),
        config: &AsyncConnectionConfig,
    ) -> Result<Connected, Error> {
        let address = term.address(&url.service);
        let info = url.master(&term.master);
        let at = info.addr().clone();
        let client = self.settings.client(info)?;
        let mut connection = match client.get_multiplexed_async_connection_with_config(config).await {
            Ok(connection) => connection,
            Err(error) => return Err(self.settings.unconnected(&address, &at, &error).await),
        };
        let mut questions = Pipeline::with_capacity(1);
        questions.cmd("ROLE");
        marks.questions().for_each(|question| _ = questions.add_command(question));
        let count = questions.cmd_iter().count();
        let answers = connection.send_packed_commands(&questions, 0, count).await;
        let answers = answers.map_err(|error| Error::of_connecting(&address, &error))?;
        let mut answers = answers.into_iter();
        let role = answers.next().map_or(Ok(Value::Nil), Value::extract_error);
        let role = role.map_err(|error| match Error::of_connecting(&address, &error) {
            Error::Redis { code, .. } if code == "NOPERM" => Error::Unfit(
                "the user lacks the command role, which clients of sentinels need: allow it in the ACL \
                 (delayq acl print shows all)"
                    .to_owned(),
            ),
            error => error,
        })?;
        if !is_master(&role) {
            let why = "the sentinels name this Redis, but it is a replica".to_owned();
            return Err(Error::Unreachable { address, why });
        }
        let marked: Vec<Value> = answers.collect();
        marks.compare(&term.master, &marked).map_err(|(found, known)| {
            let why = format!(
                "the sentinels name this Redis, but it keeps deployment {} instead of {}: correct the \
                 masters that the sentinels watch, or restart this process if the deployment was created \
                 again",
                found.short(),
                known.short()
            );
            Error::Unreachable { address: address.clone(), why }
        })?;
        Ok(Connected { connection, address: address.into(), term: Some(term.clone()) })
    }

    fn unreachable(&self, why: String) -> Error {
        Error::Unreachable { address: self.address.to_string(), why }
    }
}

fn is_master(role: &Value) -> bool {
    let Value::Array(words) = role else { return false };
    matches!(words.first(), Some(Value::BulkString(role)) if role == b"master")
}
