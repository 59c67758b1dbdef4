//! Publishing: delivered is an ack of the stream, and nothing else. In mode core it is a flushed connection.

use super::{
    NatsConfig, NatsMode,
    acks::{Ack, Acks},
    check, encode,
};
use crate::{CheckError, Outcome, Parcel, Sink};
use async_nats::{
    Client, ConnectOptions, Subject,
    client::{PublishError, PublishErrorKind},
    header, jetstream,
};
use async_trait::async_trait;
use secrecy::ExposeSecret;
use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::Mutex,
    time::{Sleep, sleep, timeout},
};

/// Acks that wait to be read, at most: as many as all destinations of a sink can have on their way.
const MOST_ACKS: usize = 1 << 20;
const CORE: &str = "mode = core delivers at most once: what nobody listens to, and what is on its way when a connection breaks, is lost";

/// A server or cluster.
pub(crate) struct NatsSink {
    config: NatsConfig,
    /// A part of the time that a call has, so that a connection which is silent is thrown away by this sink.
    patience: Duration,
    open: Mutex<Option<Open>>,
}

/// A connection, and JetStream over it.
#[derive(Clone)]
struct Open {
    client: Client,
    context: jetstream::Context,
    acks: Arc<Acks>,
}

// === impl NatsSink ===

impl NatsSink {
    pub(crate) fn new(config: NatsConfig, deadline: Duration) -> Self {
        Self { config, patience: deadline.mul_f64(0.8), open: Mutex::new(None) }
    }

    async fn open(&self) -> Result<Open, String> {
        let mut slot = self.open.lock().await;
        if let Some(open) = slot.as_ref() {
            return Ok(open.clone());
        }
        let client = self.options().await?.connect(self.config.servers.as_slice()).await;
        let client = client.map_err(|error| format!("{}: {error}", self.config.servers.join(", ")))?;
        let acks = Arc::new(Acks::start(&client).await.map_err(|error| error.to_string())?);
        let open = Open { context: self.context(client.clone()), client, acks };
        *slot = Some(open.clone());
        Ok(open)
    }

    /// The secrets are read anew for each connection.
    async fn options(&self) -> Result<ConnectOptions, String> {
        let mut options = ConnectOptions::new()
            .name("delayq-forwarder")
            .connection_timeout(self.patience)
            .ping_interval(Duration::from_secs(5))
            .subscription_capacity(MOST_ACKS)
            .request_timeout(Some(self.patience));
        if let (Some(username), Some(password)) = (&self.config.username, &self.config.password) {
            options =
                options.user_and_password(username.clone(), password.reveal()?.expose_secret().to_owned());
        }
        if let Some(token) = &self.config.token {
            options = options.token(token.reveal()?.expose_secret().to_owned());
        }
        if let Some(path) = &self.config.credentials {
            let read = options.credentials_file(path).await;
            options = read.map_err(|error| format!("the credentials {}: {error}", path.display()))?;
        }
        if let Some(path) = &self.config.ca {
            options = options.add_root_certificates(path.clone()).require_tls(true);
        }
        Ok(options)
    }

    fn context(&self, client: Client) -> jetstream::Context {
        jetstream::context::ContextBuilder::new().timeout(self.patience).build(client)
    }

    async fn forget(&self) {
        *self.open.lock().await = None;
    }

    /// Publishes all, then waits for the acks. One timer for all of them: what has no ack when it is over has none, and
    /// what has one by then counts.
    async fn deliver_acked(&self, open: &Open, parcels: &[Parcel]) -> Vec<Outcome> {
        let mut over = pin!(sleep(self.patience.mul_f64(0.9)));
        let all: Vec<&Parcel> = parcels.iter().collect();
        let acks = publish(open, &all, true, over.as_mut()).await;
        let mut outcomes: Vec<Option<Outcome>> = Vec::with_capacity(parcels.len());
        let mut again = Vec::new();
        for (place, (parcel, ack)) in parcels.iter().zip(acks).enumerate() {
            // Never sent before, and yet known: an earlier message had this id and content, and this one was dropped.
            let dropped = matches!(ack, Ok(Some(Ack::Duplicate))) && parcel.about.delivery <= 1;
            if dropped {
                again.push(place);
            }
            outcomes.push((!dropped).then(|| self.outcome(ack)));
        }
        if !again.is_empty() {
            let dropped: Vec<&Parcel> = again.iter().map(|&place| &parcels[place]).collect();
            let acks = publish(open, &dropped, false, over.as_mut()).await;
            for (place, ack) in again.into_iter().zip(acks) {
                outcomes[place] = Some(self.outcome(ack));
            }
        }
        outcomes.into_iter().map(|outcome| outcome.expect("what was dropped is published again")).collect()
    }

    fn outcome(&self, ack: Result<Option<Ack>, Outcome>) -> Outcome {
        match ack {
            Err(outcome) => outcome,
            Ok(Some(Ack::Stored | Ack::Duplicate)) => Outcome::Delivered,
            Ok(Some(Ack::NoStream)) => Outcome::failed("no stream found for given subject"),
            // The stream's own bound on one message; its other refusals are of the stream as a whole.
            Ok(Some(Ack::Refused(why))) if why.contains("message size exceeds maximum") => {
                Outcome::rejected(why)
            }
            Ok(Some(Ack::Refused(why) | Ack::Nonsense(why))) => Outcome::down(why),
            Ok(None) => Outcome::down(format!("no ack within {:?}", self.patience)),
        }
    }

    async fn deliver_core(&self, client: &Client, parcels: &[Parcel]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(parcels.len());
        for parcel in parcels {
            outcomes.push(
                match encode::subject(&parcel.destination).and_then(|()| encode::headers(parcel)) {
                    Err(reason) => Outcome::rejected(reason),
                    Ok(headers) => {
                        let (subject, body) = (parcel.destination.clone(), parcel.body.clone());
                        match client.publish_with_headers(subject, headers, body).await {
                            Ok(()) => Outcome::Delivered,
                            Err(error) => Outcome::down(error.to_string()),
                        }
                    }
                },
            );
        }
        if let Err(error) = client.flush().await {
            let down = Outcome::down(error.to_string());
            outcomes
                .iter_mut()
                .filter(|outcome| **outcome == Outcome::Delivered)
                .for_each(|o| *o = down.clone());
        }
        outcomes
    }

    async fn deliver_all(&self, parcels: &[Parcel]) -> Vec<Outcome> {
        let open = match self.open().await {
            Ok(open) => open,
            Err(why) => return vec![Outcome::down(why); parcels.len()],
        };
        match self.config.mode {
            NatsMode::Core => self.deliver_core(&open.client, parcels).await,
            NatsMode::Jetstream => self.deliver_acked(&open, parcels).await,
        }
    }
}

#[async_trait]
impl Sink for NatsSink {
    fn kind(&self) -> &'static str {
        "nats"
    }

    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        if let Some(subject) = destination {
            encode::subject(subject).map_err(CheckError::Refused)?;
        }
        let looked = timeout(self.patience, async {
            let open = self.open().await.map_err(CheckError::Unreachable)?;
            match self.config.mode {
                NatsMode::Core => Ok(vec![CORE.to_owned()]),
                NatsMode::Jetstream => check::check(&open.context, &self.config, destination).await,
            }
        });
        let looked = looked.await.unwrap_or_else(|_| Err(CheckError::Unreachable("no answer".to_owned())));
        if matches!(looked, Err(CheckError::Unreachable(_))) {
            self.forget().await;
        }
        looked
    }

    async fn deliver(&self, parcels: &[Parcel]) -> Vec<Outcome> {
        let delivered = timeout(self.patience, self.deliver_all(parcels)).await;
        let outcomes = delivered.unwrap_or_else(|_| {
            vec![Outcome::down(format!("no ack within {:?}", self.patience)); parcels.len()]
        });
        if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unavailable { .. })) {
            // A client that is connected again by itself is as good; one that is stuck is not.
            self.forget().await;
        }
        outcomes
    }

    async fn close(&self) -> Result<(), String> {
        match self.open.lock().await.take() {
            None => Ok(()),
            Some(open) => open.client.drain().await.map_err(|error| error.to_string()),
        }
    }
}

/// Publishes, with the id that a stream drops repeats by or without it, and waits until all is acked or the time is over.
/// What is not acked then is `None`.
async fn publish(
    open: &Open,
    parcels: &[&Parcel],
    with_id: bool,
    mut over: Pin<&mut Sleep>,
) -> Vec<Result<Option<Ack>, Outcome>> {
    let call = open.acks.call(parcels.len());
    let mut unsent = Vec::new();
    let sending = async {
        let mut known: Option<Subject> = None;
        for (place, parcel) in parcels.iter().enumerate() {
            if let Err(outcome) = send(&open.client, &mut known, parcel, with_id, call.reply(place)).await {
                // An ack that does not matter: nothing is to be waited for at this place.
                call.answers.put(place, Ack::NoStream);
                unsent.push((place, outcome));
            }
        }
    };
    if before(over.as_mut(), sending).await.is_some() {
        before(over, call.answers.complete()).await;
    }
    let mut acks: Vec<_> = call.answers.take().into_iter().map(Ok).collect();
    for (place, outcome) in unsent {
        acks[place] = Err(outcome);
    }
    acks
}

/// Sends one publication; `known` is the subject of the last one.
async fn send(
    client: &Client,
    known: &mut Option<Subject>,
    parcel: &Parcel,
    with_id: bool,
    reply: Subject,
) -> Result<(), Outcome> {
    if known.as_ref().is_none_or(|known| known.as_str() != parcel.destination) {
        encode::subject(&parcel.destination).map_err(Outcome::rejected)?;
        *known = Some(parcel.destination.as_str().into());
    }
    let subject = known.clone().expect("it was just set");
    let mut headers = encode::headers(parcel).map_err(Outcome::rejected)?;
    if with_id {
        headers.insert(header::NATS_MESSAGE_ID, parcel.about.identity.as_str());
    }
    let sent = client.publish_with_reply_and_headers(subject, reply, headers, parcel.body.clone()).await;
    sent.map_err(|error| refused(&error))
}

/// The output of `work`, unless the time is over and it is not there yet.
async fn before<T>(over: Pin<&mut Sleep>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        output = work => Some(output),
        () = over => None,
    }
}

/// What the client's own refusal means for one message.
fn refused(error: &PublishError) -> Outcome {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded | PublishErrorKind::InvalidSubject => {
            Outcome::rejected(error.to_string())
        }
        PublishErrorKind::Send => Outcome::down(error.to_string()),
    }
}
