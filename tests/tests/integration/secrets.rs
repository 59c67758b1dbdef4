//! Secrets are planted in every input for secrets; programs run, well and badly; and no output, metric or process
//! listing shows a secret.

mod collector;
mod place;
mod planted;

use delayq_tests::admin_endpoint::AdminEndpoint;
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::{created, settings};
use delayq_tests::process::{Process, Signal};
use place::{Login, OPEN, Place, SINKS, VARIABLE, Values};
use planted::Planted;
use std::path::{Path, PathBuf};

/// None may hold a secret.
#[derive(Default)]
struct Heard(Vec<(String, String)>);

// === impl Heard ===

impl Heard {
    fn hear(&mut self, place: impl Into<String>, text: impl Into<String>) {
        self.0.push((place.into(), text.into()));
    }

    /// The output must not be empty.
    async fn run(&mut self, what: &str, binary: Binary) {
        let finished = binary.env("RUST_BACKTRACE", "full").run(b"", LONG).await;
        let text = format!("{}\n{}", finished.stdout, finished.stderr);
        assert!(!text.trim().is_empty(), "{what} said nothing");
        self.hear(what, text);
    }

    /// Fails for each secret, and if one of `searched` lacks the open word, which proves that the output was searched.
    fn check(&self, planted: &Planted, searched: &[&str]) {
        let leaks: Vec<String> = self
            .0
            .iter()
            .flat_map(|(place, text)| {
                planted.found_in(text).into_iter().map(move |leak| format!("{place}: {leak}"))
            })
            .collect();
        assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n"));
        for wanted in searched {
            let seen = self.0.iter().any(|(place, text)| place.starts_with(wanted) && text.contains(OPEN));
            assert!(seen, "{wanted} does not even show what is no secret");
        }
    }
}

fn write(place: &Place, name: &str, text: &str) -> PathBuf {
    let path = place.folder.join(&format!("{name}.toml"));
    std::fs::write(&path, text).unwrap();
    path
}

fn service(name: &str, configuration: &Path, values: &Values, login: Login) -> Binary {
    let binary = Binary::new(name).arg(configuration).env("RUST_BACKTRACE", "full");
    if matches!(login, Login::Variable) { binary.env(VARIABLE, &values.redis) } else { binary }
}

fn delayq(configuration: &Path, args: &[&str]) -> Binary {
    Binary::new("delayq").arg("--config").arg(configuration).args(args)
}

fn said(process: &Process) -> String {
    process.lines().into_iter().map(|line| line.text + "\n").collect()
}

/// The system's view of a process: the command line for every user, the environment for the process's user.
fn shown(process: &Process, login: Login) -> String {
    let read = |name: &str| {
        let bytes = std::fs::read(format!("/proc/{}/{name}", process.id())).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', "\n")
    };
    let environment = if matches!(login, Login::Variable) { String::new() } else { read("environ") };
    read("cmdline") + &environment
}

const SERVICES: [(&str, Login); 3] = [
    ("delayq-timer", Login::Url),
    ("delayq-forwarder", Login::File),
    ("delayq-compensator", Login::Variable),
];

const COMMANDS: [&[&str]; 9] = [
    &["config", "show"],
    &["config", "show", "--json"],
    &["config", "check"],
    &["config", "check", "--json"],
    &["doctor"],
    &["check"],
    &["timers", "--json"],
    &["topics"],
    &["spool", "--json"],
];

/// A sink's timeout in the successful run: brokers are slow while everything starts.
const AT_WORK: &str = "1m";
/// A sink's timeout in the failing run.
const REFUSED: &str = "3s";

/// Of a recorded trace.
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn delivered(metrics: &str) -> usize {
    let mut lines = metrics.lines();
    let line =
        lines.find_map(|line| line.strip_prefix("delayq_forwarder_settled_total{word=\"delivered\"} "));
    line.map_or(0, |count| count.parse().unwrap())
}

/// Every service at work with the right secrets, and every read-only command.
async fn at_work(place: &Place, values: &Values, heard: &mut Heard, planted: &mut Planted) {
    let (_client, _admin, producer) = created(settings(place.redis.url(), 2)).await;
    let mut running = Vec::new();
    for (name, login) in SERVICES {
        let configuration = write(place, name, &place.configuration(values, login, AT_WORK));
        let mut process = service(name, &configuration, values, login).start();
        let endpoint = AdminEndpoint::of(&mut process).await;
        running.push((name, login, process, endpoint));
    }
    let (payload, header) = (planted.plant("payload"), planted.plant("header"));
    let messages = SINKS.map(|sink| {
        let topic = delayq::Topic::new(sink).unwrap();
        let message = delayq::Message::new(topic, payload.clone()).id(OPEN).unwrap();
        message.header("x-planted", header.clone()).header("traceparent", TRACE)
    });
    for put in producer.put_many(messages.to_vec()).await {
        assert!(put.unwrap().outcome.is_accepted());
    }
    // Spooled while Redis is unreachable, then resubmitted.
    let away =
        place.configuration(values, Login::Password, AT_WORK).replace(&place.redis.address(), "127.0.0.1:1");
    let away = write(place, "away", &away);
    for (what, payload) in [("put", payload.as_str()), ("put again", header.as_str())] {
        heard.run(what, delayq(&away, &["put", "hook", payload, "--id", &what.replace(' ', "-")])).await;
    }
    // RabbitMQ's exchange has no bindings: returned messages are released again and again.
    let forwarder = running[1].3.clone();
    wait_until("every delivery", LONG, async || delivered(&forwarder.get("/metrics").await.1) > SINKS.len())
        .await;
    wait_until("the spans", LONG, async || place.collector.was_called_with(&values.collector)).await;

    let configuration = write(place, "command", &place.configuration(values, Login::Password, AT_WORK));
    for args in COMMANDS {
        heard.run(&args.join(" "), delayq(&configuration, args)).await;
        let logged = delayq(&configuration, args).env("RUST_LOG", "trace");
        heard.run(&format!("{}, traced", args.join(" ")), logged).await;
    }
    for (name, login, mut process, endpoint) in running {
        for path in ["/metrics", "/livez", "/readyz", "/version", "/config"] {
            heard.hear(format!("{path} of {name}"), endpoint.get(path).await.1);
        }
        heard.hear(format!("the process list of {name}"), shown(&process, login));
        process.end_by(Signal::TERM, LONG).await;
        heard.hear(format!("the log of {name}"), said(&process));
    }
}

/// Every service and command with secrets that every server refuses, and with missing servers.
async fn refused(place: &Place, heard: &mut Heard, planted: &mut Planted) {
    // A malformed key with a secret inside.
    let key = place.folder.join("key.pem");
    let broken = planted.plant("a broken key");
    std::fs::write(&key, format!("-----BEGIN PRIVATE KEY-----\n{broken}\n-----END PRIVATE KEY-----\n"))
        .unwrap();
    let wrong = Values::plant(planted, "wrong", place.key());
    for (name, login) in SERVICES {
        let configuration = write(place, "wrong", &place.configuration(&wrong, login, REFUSED));
        let mut process = service(name, &configuration, &wrong, login).start();
        // Only the compensator waits until its login is right.
        if name == "delayq-compensator" {
            let endpoint = AdminEndpoint::of(&mut process).await;
            wait_until("it is not ready", LONG, async || endpoint.get("/readyz").await.0 == 503).await;
            heard.hear(format!("/readyz of {name}, refused"), endpoint.get("/readyz").await.1);
            process.signal(Signal::TERM);
        }
        process.wait_end(LONG).await;
        heard.hear(format!("{name}, refused"), said(&process));
    }
    let wrong = wrong.with_key(key);
    let text = place.configuration(&wrong, Login::Password, REFUSED);
    let away = text.replace(&place.redis.address(), "127.0.0.1:1");
    for (what, text) in [("refused", &text), ("away", &away)] {
        let configuration = write(place, what, text);
        for args in COMMANDS {
            heard.run(&format!("{}, {what}", args.join(" ")), delayq(&configuration, args)).await;
        }
    }
    // The forwarder's own Redis is right, and its sinks are wrong in turn.
    let right = write(place, "sinks", &place.configuration(&wrong, Login::Password, REFUSED));
    for sink in SINKS {
        let as_operator = service("delayq-forwarder", &right, &wrong, Login::File)
            .env("DELAYQ__REDIS__USERNAME", "default")
            .env("DELAYQ__REDIS__PASSWORD", "any")
            .env("DELAYQ__ROUTES", format!("[{{ topic = '{sink}', sink = '{sink}' }}]"));
        heard.run(&format!("the sink {sink}, refused"), as_operator).await;
    }
}

/// Unreadable configurations and arguments, with a secret at the fault.
async fn unreadable(place: &Place, heard: &mut Heard, planted: &mut Planted) {
    let secret = planted.plant("what cannot be read");
    for (number, text) in [
        "redis = 'redis://:SECRET@h'",
        "[redis]\nurl = 'redis://:SECRET@h:99999'",
        "[redis]\nurl = 'SECRET@h'",
        "[redis]\nurl = ['redis://:SECRET@h']",
        "[redis]\npassword = 'SECRET",
        "[redis]\npassword = SECRET",
        "[redis]\npassword = \"\\qSECRET\"",
        "[redis]\npassword = ['SECRET']",
        "[redis]\npassword = { value = 'SECRET' }",
        "[redis]\npassword = 'x'\npassword = 'SECRET'",
        "[redis]\npasword = 'SECRET'",
        "[redis]\nSECRET",
        "[etcd]\nendpoints = 'http://u:SECRET@h:1'",
        "[etcd]\nendpoints = ['http://u:SECRET@h:1']",
        "[etcd]\ntls = 'SECRET'",
        "[sinks.a.kafka]\nbrokers = 'u:SECRET@h:1'",
        "[sinks.a.kafka]\nbrokers = ['u:SECRET@h:1']",
        "[sinks.a]\nkafka = 'SECRET'",
        "[sinks.a.nats]\nservers = ['nats://u:SECRET@h:1']",
        "[sinks.a.nats]\nservers = 'nats://SECRET@h:1'",
        "[sinks.a.nats]\ntoken = { file = 1, token = 'SECRET' }",
        "[sinks.a.rabbitmq]\nserver = 'amqp://u:SECRET@h:1/v'",
        "[sinks.a.webhook]\nurl = 'https://u:SECRET@h/'",
        "[sinks.a.webhook]\nurl = 'https://h/?token=SECRET'",
        "[sinks.a.webhook]\nurl = 'https://h/'\nheaders = { authorization = 'SECRET' }",
        "[sinks.a.redis.server]\nurl = 'redis://h:1?password=SECRET'",
        "[admin]\nlisten = 'u:SECRET@h:1'",
    ]
    .into_iter()
    .enumerate()
    {
        let configuration = write(place, &format!("unreadable-{number}"), &text.replace("SECRET", &secret));
        heard.run(text, Binary::new("delayq-forwarder").arg(&configuration)).await;
        for args in [&["config", "check"][..], &["config", "check", "--json"], &["topics"]] {
            heard.run(text, delayq(&configuration, args)).await;
        }
    }
    for (variable, text) in [
        ("DELAYQ__REDIS", "redis://:SECRET@h"),
        ("DELAYQ__REDIS__URL", "redis://:SECRET@h:99999"),
        ("DELAYQ__REDIS__PASSWORD__FILE__X", "SECRET"),
        ("DELAYQ__ETCD__ENDPOINTS", "http://u:SECRET@h:1"),
        ("DELAYQ__SINKS__A__KAFKA__BROKERS", "u:SECRET@h:1"),
    ] {
        let text = text.replace("SECRET", &secret);
        heard.run(variable, Binary::new("delayq-forwarder").env(variable, &text)).await;
    }
    for text in
        ["redis://:SECRET@h:99999", "redis://:SECRET@127.0.0.1:1", "u:SECRET@h", "redis://h:1?pass=SECRET"]
    {
        for more in [&[][..], &["--json"]] {
            let command =
                Binary::new("delayq").arg("--redis").arg(text.replace("SECRET", &secret)).arg("topics");
            heard.run(&format!("--redis {text}"), command.args(more)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_leaves_a_program_that_works_or_fails() {
    let (mut planted, mut heard) = (Planted::default(), Heard::default());
    let (place, right) = Place::start(&mut planted).await;
    at_work(&place, &right, &mut heard, &mut planted).await;
    refused(&place, &mut heard, &mut planted).await;
    unreadable(&place, &mut heard, &mut planted).await;
    let searched = [
        "the log of delayq-timer",
        "the log of delayq-forwarder",
        "the log of delayq-compensator",
        "the process list of delayq-timer",
        "/metrics of delayq-forwarder",
        "config show",
        "doctor",
        "delayq-forwarder, refused",
        "the sink kafka, refused",
    ];
    heard.check(&planted, &searched);
}
