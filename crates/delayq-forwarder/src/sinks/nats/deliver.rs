//! Publishing: delivered is an ack of the stream, and nothing else. In mode core it is a flushed connection.

use super::{
    NatsConfig, NatsMode,
    acks::{Ack, Acks},
    check, encode,
    refusals::Refusals,
};
use crate::{CheckError, Outcome, Outcomes, Parcel, Sink};
use async_nats::{
    Client, ConnectOptions, Subject,
    client::{PublishError, PublishErrorKind},
    header, jetstream,
};
use async_trait::async_trait;
use secrecy::ExposeSecret;
use std::{
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Mutex,
    time::{Sleep, interval, sleep, timeout},
};

/// How often the acks that are there are handed out while others are missing.
const COLLECT_EVERY: Duration = Duration::from_millis(50);

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
    refusals: Refusals,
}

/// Parcels that are published together, with the id that a stream drops repeats by or without it.
struct Load<'a> {
    parcels: &'a [Parcel],
    places: Vec<usize>,
    with_id: bool,
}

/// The outcomes of a call, and how many are missing or not good.
struct Tracked<'a> {
    outcomes: &'a Outcomes,
    missing: AtomicUsize,
}

// === impl Tracked ===

impl Tracked<'_> {
    fn put(&self, place: usize, outcome: Outcome) {
        if !matches!(outcome, Outcome::Unavailable { .. }) {
            self.missing.fetch_sub(1, Ordering::Relaxed);
        }
        self.outcomes.put(place, outcome);
    }

    fn put_rest(&self, outcome: &Outcome) {
        self.outcomes.put_rest(outcome);
    }
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
        let refusals = Refusals::new();
        let client = self.options(refusals.clone()).await?.connect(self.config.servers.as_slice()).await;
        let client = client.map_err(|error| format!("{}: {error}", self.config.servers.join(", ")))?;
        let acks = Arc::new(Acks::start(&client).await.map_err(|error| error.to_string())?);
        let open = Open { context: self.context(client.clone()), client, acks, refusals };
        *slot = Some(open.clone());
        Ok(open)
    }

    /// The secrets are read anew for each connection.
    async fn options(&self, refusals: Refusals) -> Result<ConnectOptions, String> {
        let mut options = ConnectOptions::new()
            .name("delayq-forwarder")
            .connection_timeout(self.patience)
            .event_callback(move |event| {
                refusals.hear(&event);
                std::future::ready(())
            })
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

    /// Publishes all, then puts what each ack means as it comes. One timer for all of them: what has no ack when it is over
    /// has none.
    async fn deliver_acked(&self, open: &Open, parcels: &[Parcel], call: &Tracked<'_>) {
        let mut over = pin!(sleep(self.patience.mul_f64(0.9)));
        let mut dropped = Vec::new();
        let all = (0..parcels.len()).collect();
        publish(open, Load { parcels, places: all, with_id: true }, call, over.as_mut(), |place, ack| {
            // Never sent before, and yet known: an earlier message had this id and content, and this one was dropped.
            if ack == Ack::Duplicate && parcels[place].about.delivery <= 1 {
                dropped.push(place);
            } else {
                call.put(place, outcome(ack));
            }
        })
        .await;
        if !dropped.is_empty() {
            let again = Load { parcels, places: dropped, with_id: false };
            publish(open, again, call, over, |place, ack| call.put(place, outcome(ack))).await;
        }
    }

    async fn deliver_core(&self, client: &Client, parcels: &[Parcel], call: &Tracked<'_>) {
        let mut sent = Vec::with_capacity(parcels.len());
        for (place, parcel) in parcels.iter().enumerate() {
            match encode::subject(&parcel.destination).and_then(|()| encode::headers(parcel)) {
                Err(reason) => call.put(place, Outcome::rejected(reason)),
                Ok(headers) => {
                    let (subject, body) = (parcel.destination.clone(), parcel.body.clone());
                    match client.publish_with_headers(subject, headers, body).await {
                        Ok(()) => sent.push(place),
                        Err(error) => call.put(place, Outcome::down(error.to_string())),
                    }
                }
            }
        }
        let flushed = match client.flush().await {
            Ok(()) => Outcome::Delivered,
            Err(error) => Outcome::down(error.to_string()),
        };
        sent.into_iter().for_each(|place| call.put(place, flushed.clone()));
    }

    async fn deliver_all(&self, parcels: &[Parcel], call: &Tracked<'_>) {
        match (self.open().await, self.config.mode) {
            (Err(why), _) => call.put_rest(&Outcome::down(why)),
            (Ok(open), NatsMode::Core) => self.deliver_core(&open.client, parcels, call).await,
            (Ok(open), NatsMode::Jetstream) => self.deliver_acked(&open, parcels, call).await,
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
                NatsMode::Jetstream => tokio::select! {
                    biased;
                    looked = check::check(&open.context, &self.config, destination) => looked,
                    words = open.refusals.of("$JS.API") => Ok(vec![check::unseen(destination, &words)]),
                },
            }
        });
        let looked = looked.await.unwrap_or_else(|_| Err(CheckError::Unreachable("no answer".to_owned())));
        if matches!(looked, Err(CheckError::Unreachable(_))) {
            self.forget().await;
        }
        looked
    }

    async fn deliver(&self, parcels: &[Parcel], outcomes: &Arc<Outcomes>) {
        let call = Tracked { outcomes, missing: AtomicUsize::new(parcels.len()) };
        let _ = timeout(self.patience, self.deliver_all(parcels, &call)).await;
        if call.missing.load(Ordering::Relaxed) > 0 {
            let refused = self.open.lock().await.as_ref().and_then(|open| open.refusals.last());
            let refused = refused.map_or_else(String::new, |words| format!(": {words}"));
            outcomes.put_rest(&Outcome::silent(format!("no ack within {:?}{refused}", self.patience)));
            // A client that is connected again by itself is as good; one that is stuck is not.
            self.forget().await;
        }
    }

    async fn close(&self) -> Result<(), String> {
        match self.open.lock().await.take() {
            None => Ok(()),
            Some(open) => open.client.drain().await.map_err(|error| error.to_string()),
        }
    }
}

/// Publishes, and hands out the acks until all are there or the time is over.
async fn publish(
    open: &Open,
    load: Load<'_>,
    call: &Tracked<'_>,
    mut over: Pin<&mut Sleep>,
    mut acked: impl FnMut(usize, Ack),
) {
    let acks = open.acks.call(load.places.len());
    let sending = async {
        let mut known: Option<Subject> = None;
        for (place, number) in load.places.iter().enumerate() {
            let parcel = &load.parcels[*number];
            if let Err(outcome) =
                send(&open.client, &mut known, parcel, load.with_id, acks.reply(place)).await
            {
                call.put(*number, outcome);
                // An ack that does not matter: nothing is to be waited for at this place.
                acks.answers.put(place, Ack::NoStream);
            }
        }
    };
    if before(over.as_mut(), sending).await.is_none() {
        return;
    }
    let mut every = interval(COLLECT_EVERY);
    loop {
        let ended = tokio::select! {
            biased;
            () = acks.answers.complete() => true,
            () = over.as_mut() => true,
            _ = every.tick() => false,
        };
        acks.answers.fresh().into_iter().for_each(|(place, ack)| acked(load.places[place], ack));
        if ended {
            return;
        }
    }
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

fn outcome(ack: Ack) -> Outcome {
    match ack {
        Ack::Stored | Ack::Duplicate => Outcome::Delivered,
        Ack::NoStream => Outcome::failed("no stream found for given subject"),
        // The stream's own bound on one message; its other refusals are of the stream as a whole.
        Ack::Refused(why) if why.contains("message size exceeds maximum") => Outcome::rejected(why),
        Ack::Refused(why) | Ack::Nonsense(why) => Outcome::down(why),
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
