//! The intake `nats`.

use crate::conformance::{self, conforms};
use crate::guide;
use crate::look::look;
use crate::stage::{Broker, Guard, PASSWORD, Place, Sent, Stage, USER};
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, Context};
use async_nats::{ConnectOptions, HeaderMap, HeaderName};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_compensator::{IntakeFault, IntakeLook};
use delayq_tests::deadline::{LONG, wait_for, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::nats_server::NatsServer;
use futures_util::future::try_join_all;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

struct Nats {
    server: NatsServer,
    options: ConnectOptions,
}

impl Nats {
    async fn context(&self) -> Context {
        jetstream::new(self.options.clone().connect(self.server.url()).await.unwrap())
    }

    async fn keep_at_most(&self, records: i64) {
        let context = self.context().await;
        let mut config = context.get_stream("in").await.unwrap().cached_info().config.clone();
        config.max_messages = records;
        context.update_stream(config).await.unwrap();
    }

    async fn publish_to(&self, subject: &str, records: Vec<Sent>) {
        let context = self.context().await;
        for some in records.chunks(1000) {
            let mut acks = Vec::new();
            for record in some {
                let mut headers = HeaderMap::new();
                for (name, value) in &record.headers {
                    headers.append(name.parse::<HeaderName>().unwrap(), value.as_str());
                }
                let body = record.body.clone().into();
                acks.push(context.publish_with_headers(subject.to_owned(), headers, body).await.unwrap());
            }
            try_join_all(acks.into_iter().map(IntoFuture::into_future)).await.unwrap();
        }
    }
}

impl Broker for Nats {
    const EVENT_PREFIX: &'static str = "ce-";
    const MISSING: &'static str = "the stream `in`";
    const ORIGIN: &'static str = "nats in sequence ";

    const TLS: &'static str = "";
    const LOGIN: &'static str = "";

    async fn start(guard: Guard<'_>) -> Self {
        let options = ConnectOptions::new();
        let (server, options) = match guard {
            Guard::Open => (NatsServer::start(&[]).await, options),
            Guard::Asking(authority) => {
                let (server, own) = (authority.server(), authority.sign("publisher", &["publisher.test"]));
                let files = [&authority.authority(), &server.certificate, &server.key];
                let [ca, cert, key] = files.map(|file| file.to_str().unwrap());
                let arguments = ["--tlsverify", "--tlscacert", ca, "--tlscert", cert, "--tlskey", key];
                let options = options.add_root_certificates(authority.authority());
                let options = options.add_client_certificate(own.certificate, own.key).require_tls(true);
                (NatsServer::start(&arguments).await, options)
            }
            Guard::Login => {
                let server = NatsServer::start(&["--user", USER, "--pass", PASSWORD]).await;
                (server, options.user_and_password(USER.to_owned(), PASSWORD.to_owned()))
            }
        };
        let nats = Self { server, options };
        nats.create(Place::Source).await;
        nats.create(Place::Dead).await;
        nats
    }

    fn section(&self) -> String {
        format!(
            "dead = \"dead\"\n[intake.orders.nats]\nservers = [\"{}\"]\nstream = \"in\"\n",
            self.server.url()
        )
    }

    async fn publish(&self, records: Vec<Sent>) {
        self.publish_to("in.orders", records).await;
    }

    async fn dead(&self, count: usize) -> Vec<Sent> {
        let context = self.context().await;
        wait_for("dead records", LONG, async || {
            let mut stream = context.get_stream("dead").await.unwrap();
            let last = stream.info().await.unwrap().state.last_sequence;
            let mut found = Vec::new();
            for sequence in 1..=last {
                let message = stream.get_raw_message(sequence).await.unwrap();
                let headers = message.headers.iter().flat_map(|(name, values)| {
                    values.iter().map(|value| (name.to_string(), value.as_str().to_owned()))
                });
                let headers = headers.collect();
                found.push(Sent { headers, body: message.payload.to_vec(), ..Sent::default() });
            }
            (found.len() >= count).then_some(found)
        })
        .await
    }

    async fn buried(&self) -> u64 {
        self.context().await.get_stream("dead").await.unwrap().info().await.unwrap().state.messages
    }

    async fn unsettled(&self) -> u64 {
        let mut stream = self.context().await.get_stream("in").await.unwrap();
        match stream.get_consumer::<pull::Config>("delayq").await {
            Ok(consumer) => {
                let info = consumer.cached_info();
                info.num_pending + info.num_ack_pending as u64
            }
            Err(_) => stream.info().await.unwrap().state.messages,
        }
    }

    async fn delete(&self, place: Place) {
        self.context().await.delete_stream(stream(place).0).await.unwrap();
    }

    async fn create(&self, place: Place) {
        let (name, subject) = stream(place);
        let (name, subjects) = (name.to_owned(), vec![subject.to_owned()]);
        self.context().await.create_stream(Config { name, subjects, ..Config::default() }).await.unwrap();
    }

    async fn kill(&mut self) {
        self.server.kill().await;
    }

    async fn resume(&mut self) {
        self.server.resume().await;
    }
}

const fn stream(place: Place) -> (&'static str, &'static str) {
    match place {
        Place::Source => ("in", "in.>"),
        Place::Dead => ("dead", "dead"),
    }
}

conforms!(Nats);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_creates_no_consumer_and_repeats_what_the_server_denies() {
    let rules = Folder::new("nats");
    let path = rules.join("rules.conf");
    let users = "authorization { users = [ { user: all, password: p }, { user: few, password: p, \
                 permissions: { publish: [ \"$JS.API.STREAM.>\", \"delayq.turn.>\" ] } } ] }";
    std::fs::write(&path, users).unwrap();
    let server = NatsServer::start(&["-c", path.to_str().unwrap()]).await;
    let options = ConnectOptions::new().user_and_password("all".to_owned(), "p".to_owned());
    let nats = Nats { server, options };
    nats.create(Place::Source).await;
    nats.create(Place::Dead).await;
    let seen = look(&nats, "username = \"all\"\npassword = \"p\"").await;
    assert_eq!(seen, Ok(IntakeLook { lag: 0, lost: 0, reader: None }));
    let stream = nats.context().await.get_stream("in").await.unwrap();
    assert_eq!(stream.cached_info().state.consumer_count, 0);
    let denied = look(&nats, "username = \"few\"\npassword = \"p\"").await.unwrap_err();
    assert!(matches!(&denied, IntakeFault::Unusable(why) if why.contains("CONSUMER.INFO")), "{denied:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_counts_the_records_of_its_own_subject_alone() {
    let nats = Nats::start(Guard::Open).await;
    nats.publish((0..3).map(|n| Sent::put(&format!("m{n}"), &[])).collect()).await;
    for (subject, lag) in [("in.orders", 3), ("in.*", 3), ("in.mail", 0)] {
        let seen = look(&nats, &format!("subject = \"{subject}\"\n")).await;
        assert_eq!(seen, Ok(IntakeLook { lag, lost: 0, reader: None }), "{subject}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_dead_destination_took_is_not_buried_again() {
    let refuse = async |nats: &Nats| {
        let (name, subject) = stream(Place::Dead);
        let (name, subjects) = (name.to_owned(), vec![subject.to_owned()]);
        let config = Config { name, subjects, max_message_size: 10_000, ..Config::default() };
        nats.context().await.update_stream(config).await.unwrap();
    };
    conformance::what_the_dead_destination_took_is_not_buried_again::<Nats>(refuse, 19).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_without_a_bound_is_read_no_further_ahead_than_the_intake_says() {
    let mut stage = Stage::<Nats>::start().await;
    let of = stage.broker.context().await.get_stream("in").await.unwrap();
    let unbounded = pull::Config {
        durable_name: Some("delayq".to_owned()),
        max_ack_pending: -1,
        ..pull::Config::default()
    };
    of.create_consumer(unbounded).await.unwrap();
    let compensator = stage.compensator("batch = 5\nin_flight = 20").await;
    compensator.is_ready().await;
    stage.deployment.server.kill().await;
    stage.broker.publish((0..500).map(|n| Sent::put(&format!("m{n}"), &[])).collect()).await;
    compensator.shows("intake_paused{intake=\"orders\"}", 1.0).await;
    let info = of.consumer_info("delayq").await.unwrap();
    assert!((1..=20).contains(&info.num_ack_pending), "{info:?}");
    stage.deployment.server.resume().await;
    stage.has_delayed(500).await;
    stage.is_settled().await;
    compensator.stop().await;
}

/// Records of 1 MiB, of which the next never fits into the remaining bytes: the intake asks for fewer, and
/// passes over none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_as_large_as_the_server_takes_are_taken_in_bounded_by_their_bytes() {
    let stage = Stage::<Nats>::start().await;
    let large = |n: usize| Sent { body: vec![b'x'; 1_000_000], ..Sent::put(&format!("large{n}"), &[]) };
    for chunk in 0..10 {
        stage.broker.publish((chunk * 10..(chunk + 1) * 10).map(large).collect()).await;
    }
    stage.broker.publish(vec![Sent::put("small", &[])]).await;
    let compensator = stage.compensator("").await;
    stage.has_delayed(1).await;
    compensator.shows("source_settled_total{source=\"intake.orders\",outcome=\"rejected\"}", 100.0).await;
    stage.is_settled().await;
    compensator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_whose_headers_the_client_cannot_read_are_buried_and_the_others_go_on() {
    let stage = Stage::<Nats>::start().await;
    let of = stage.broker.context().await.get_stream("in").await.unwrap();
    // The server delivers again sooner after a connection that did not ack.
    let name = Some("delayq".to_owned());
    let patient =
        pull::Config { durable_name: name, ack_wait: Duration::from_secs(2), ..pull::Config::default() };
    of.create_consumer(patient).await.unwrap();
    stage.broker.publish(vec![Sent::put("before", &[])]).await;
    let damaged: [&[u8]; 4] = [
        b"NATS/1.0\r\nx: \xff\r\n\r\n",
        b"NATS/1.0\r\nno colon\r\n\r\n",
        b"NATS/1.0\r\nx: a\rb\r\n\r\n",
        b"NATS/1.0 503\r\n\r\n",
    ];
    for headers in damaged {
        publish_raw(&stage.broker.server, headers).await;
    }
    stage.broker.publish(vec![Sent::put("after", &[])]).await;
    let compensator = stage.compensator("").await;
    stage.has_delayed(2).await;
    let dead = stage.broker.dead(damaged.len()).await;
    assert_eq!(dead.len(), damaged.len(), "{dead:?}");
    for (n, (dead, headers)) in dead.iter().zip(damaged).enumerate() {
        assert_eq!(dead.header("delayq-headers"), STANDARD.encode(headers));
        assert_eq!(dead.header("delayq-origin"), format!("nats in sequence {}", n + 2));
        assert!(dead.header("delayq-reason").contains("header"), "{dead:?}");
        assert_eq!(dead.body, b"raw");
    }
    stage.is_settled().await;
    compensator.stop().await;
}

async fn publish_raw(server: &NatsServer, headers: &[u8]) {
    const BODY: &[u8] = b"raw";
    let mut socket = BufReader::new(TcpStream::connect(server.address()).await.unwrap());
    let connect = b"CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\nSUB acks 1\r\n";
    let publish = format!("HPUB in.orders acks {} {}\r\n", headers.len(), headers.len() + BODY.len());
    socket.write_all(&[&connect[..], publish.as_bytes(), headers, BODY, b"\r\n"].concat()).await.unwrap();
    let mut line = String::new();
    while !line.contains("\"seq\"") {
        line.clear();
        assert!(socket.read_line(&mut line).await.unwrap() > 0, "the server hung up");
        assert!(!line.starts_with("-ERR"), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_limit_of_the_stream_dropped_before_it_was_read_is_counted() {
    let stage = Stage::<Nats>::start().await;
    let puts = |ids: std::ops::Range<u32>| ids.map(|n| Sent::put(&format!("m{n}"), &[])).collect::<Vec<_>>();
    let first = stage.compensator("").await;
    stage.broker.publish(puts(0..10)).await;
    stage.has_delayed(10).await;
    stage.is_settled().await;
    first.stop().await;
    stage.broker.publish(puts(10..110)).await;
    stage.broker.keep_at_most(50).await;
    let seen = look(&stage.broker, "").await.unwrap();
    assert_eq!((seen.lag, seen.lost), (50, 50));
    let compensator = stage.compensator("").await;
    compensator.shows("intake_lost_total{intake=\"orders\"}", 50.0).await;
    stage.has_delayed(60).await;
    stage.is_settled().await;
    // A record dropped after its read is no loss.
    stage.broker.publish(puts(110..150)).await;
    stage.has_delayed(100).await;
    stage.is_settled().await;
    compensator.shows("intake_lost_total{intake=\"orders\"}", 50.0).await;
    compensator.stop().await;
}

/// The stream drops the oldest of all its records, and reports nothing about a subject's dropped records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_subject_a_drop_is_counted_where_it_was_unread_and_not_where_only_others_were_dropped() {
    const OF_ORDERS: &str = "subject = \"in.orders\"";
    const LOST: &str = "intake_lost_total{intake=\"orders\"}";
    let stage = Stage::<Nats>::start().await;
    let nats = &stage.broker;
    let puts = |ids: std::ops::Range<u32>| ids.map(|n| Sent::put(&format!("m{n}"), &[])).collect::<Vec<_>>();
    let others = |count| vec![Sent::new(&[], "of another subject"); count];
    nats.keep_at_most(100).await;
    let first = stage.compensator_with("", OF_ORDERS).await;
    nats.publish(puts(0..10)).await;
    stage.has_delayed(10).await;
    stage.is_settled().await;
    nats.publish_to("in.mail", others(300)).await;
    let of = nats.context().await.get_stream("in").await.unwrap();
    wait_until("a consumer that has passed the others", LONG, async || {
        of.consumer_info("delayq").await.unwrap().delivered.stream_sequence == 310
    })
    .await;
    nats.publish(puts(10..11)).await;
    stage.has_delayed(11).await;
    stage.is_settled().await;
    first.shows(LOST, 0.0).await;
    first.stop().await;
    // Of 20 puts and 150 other records behind, the last 95 other records and 5 puts remain.
    nats.publish(puts(11..31)).await;
    nats.publish_to("in.mail", others(150)).await;
    nats.publish(puts(31..36)).await;
    let seen = look(nats, OF_ORDERS).await.unwrap();
    assert_eq!((seen.lag, seen.lost), (5, 75), "20 of them were puts");
    let compensator = stage.compensator_with("", OF_ORDERS).await;
    compensator.shows(LOST, 75.0).await;
    stage.has_delayed(16).await;
    stage.is_settled().await;
    compensator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_id_for_duplicates_is_not_the_messages_id_so_its_cancel_is_not_dropped() {
    let stage = Stage::<Nats>::start().await;
    let compensator = stage.compensator("").await;
    let msg_id = ("Nats-Msg-Id", "order-17");
    let put = Sent::put("order-17", &[("Nats-Msg-Id", "order-17-put")]);
    stage.broker.publish(vec![put, Sent::verb("cancel", "order-17", &[])]).await;
    wait_for("the cancel", LONG, async || (stage.books().await.cancelled == 1).then_some(())).await;
    stage.broker.publish(vec![Sent::new(&[("delayq-topic", "orders"), msg_id], "x")]).await;
    let dead = stage.broker.dead(1).await;
    assert_eq!(dead[0].header("delayq-reason"), "delayq-id is missing");
    compensator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_of_the_guide_takes_a_payload_of_any_content_byte_for_byte() {
    let stage = Stage::<Nats>::start().await;
    let compensator = stage.compensator("").await;
    let program = guide::block("import asyncio").replace("nats://nats:4222", &stage.broker.server.url());
    let program = program.replace("reminders.eu", "in.orders").replace("\"reminders\"", "\"orders\"");
    guide::program(&stage, &program, "reminder-5", r#"{"user":5}"#).await;
    compensator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_permissions_of_the_guide_are_all_that_an_intake_needs() {
    let rules = Folder::new("nats");
    let path = rules.join("rules.conf");
    let users = guide::block("# nats-server.conf: ");
    let users =
        users.replace("dead.reminders", "dead").replace("REMINDERS", "in").replace("$PASSWORD", PASSWORD);
    let users = users.replace("users = [", "users = [ { user: all, password: p },");
    std::fs::write(&path, users).unwrap();
    let server = NatsServer::start(&["-c", path.to_str().unwrap()]).await;
    let options = ConnectOptions::new().user_and_password("all".to_owned(), "p".to_owned());
    let nats = Nats { server, options };
    nats.create(Place::Source).await;
    nats.create(Place::Dead).await;
    let stage = Stage::on(nats).await;
    let login = format!("username = \"{USER}\"\npassword = \"{PASSWORD}\"\n");
    guide::rights_are_enough(&stage, &login).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compensator_that_stands_by_takes_over_at_once_however_often_it_has_heard_of_the_reader() {
    let stage = Stage::<Nats>::start().await;
    let first = stage.compensator("").await;
    stage.broker.publish(vec![Sent::put("a", &[])]).await;
    stage.has_delayed(1).await;
    stage.is_settled().await;
    let second = stage.compensator("").await;
    second.is_ready().await;
    let client = stage.broker.context().await.client();
    for _ in 0..1000 {
        let word = format!("held {}", u64::MAX);
        client.publish("delayq.turn.in.delayq", word.into()).await.unwrap();
    }
    client.flush().await.unwrap();
    first.kill().await;
    stage.broker.publish(vec![Sent::put("b", &[])]).await;
    stage.has_delayed(2).await;
    second.stop().await;
}
