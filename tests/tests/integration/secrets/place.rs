//! Servers that require a secret each, and configurations with right and wrong secrets.

use super::collector::Collector;
use super::planted::Planted;
use async_nats::jetstream::stream::Config;
use async_nats::{ConnectOptions, jetstream};
use delayq_tests::certs::{Authority, Certificate};
use delayq_tests::deadline::{LONG, within};
use delayq_tests::etcd_server::{EtcdCluster, EtcdOptions};
use delayq_tests::folder::Folder;
use delayq_tests::kafka_listener::Listener;
use delayq_tests::kafka_server::KafkaServer;
use delayq_tests::nats_server::NatsServer;
use delayq_tests::rabbitmq_server::RabbitmqServer;
use delayq_tests::redis_server::RedisServer;
use std::path::PathBuf;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Not a secret: part of names, and so of everything searched.
pub(super) const OPEN: &str = "openword";

/// The sinks; each delivers the topic of the same name.
pub(super) const SINKS: [&str; 7] = ["kafka", "rabbitmq", "nats", "token", "hook", "stream", "list"];

pub(super) struct Place {
    pub(super) folder: Folder,
    pub(super) redis: RedisServer,
    etcd: EtcdCluster,
    authority: Authority,
    member: Certificate,
    listener: Listener,
    rabbitmq: RabbitmqServer,
    nats: [NatsServer; 2],
    hook: String,
    pub(super) collector: Collector,
    _kafka: KafkaServer,
}

pub(super) struct Values {
    pub(super) redis: String,
    etcd: String,
    key: PathBuf,
    kafka: String,
    rabbitmq: String,
    nats: String,
    token: String,
    secret: String,
    bearer: String,
    pub(super) collector: String,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Login {
    Url,
    Password,
    File,
    Variable,
}

pub(super) const VARIABLE: &str = "PLANTED_PASSWORD";

// === impl Values ===

impl Values {
    pub(super) fn plant(planted: &mut Planted, word: &str, key: PathBuf) -> Self {
        let mut plant = |place: &str| planted.plant(&format!("{word} {place}"));
        Self {
            redis: plant("redis"),
            etcd: plant("etcd"),
            key,
            kafka: plant("kafka"),
            rabbitmq: plant("rabbitmq"),
            nats: plant("nats"),
            token: plant("token"),
            secret: plant("secret"),
            bearer: plant("bearer"),
            collector: plant("collector"),
        }
    }

    pub(super) fn with_key(self, key: PathBuf) -> Self {
        Self { key, ..self }
    }
}

// === impl Place ===

impl Place {
    /// Plants fresh secrets.
    pub(super) async fn start(planted: &mut Planted) -> (Self, Values) {
        let authority = Authority::new();
        let (server, member) = (authority.server(), authority.sign("member", &["member.test"]));
        for line in
            std::fs::read_to_string(&member.key).unwrap().lines().filter(|line| !line.starts_with('-'))
        {
            planted.remember("etcd.key", line);
        }
        let values = Values::plant(planted, "right", member.key.clone());
        let redis = RedisServer::private().await;
        let password = format!(">{}", values.redis);
        redis.command::<()>(&["ACL", "SETUSER", OPEN, "on", &password, "~*", "&*", "+@all"]).await;
        let ca = authority.authority().display().to_string();
        let asking = ["--client-cert-auth", "--trusted-ca-file", &ca];
        let options = EtcdOptions::default().tls(&server.certificate, &server.key).arguments(asking);
        let mut etcd = EtcdCluster::start_with(options).await;
        let [certificate, key] = [&member.certificate, &member.key].map(|file| file.display().to_string());
        etcd.operate_with(["--cacert", &ca, "--cert", &certificate, "--key", &key]);
        for user in ["root:root".to_owned(), format!("{OPEN}:{}", values.etcd)] {
            etcd.ctl(&["user", "add", &user]).await;
        }
        for user in ["root", OPEN] {
            etcd.ctl(&["user", "grant-role", user, "root"]).await;
        }
        etcd.ctl(&["auth", "enable"]).await;
        let listener = Listener::plain().login(OPEN, &values.kafka);
        let rabbitmq = RabbitmqServer::start().await;
        rabbitmq.add_user(OPEN, &values.rabbitmq, [".*"; 3]).await;
        let nats = [
            NatsServer::start(&["--user", OPEN, "--pass", &values.nats]).await,
            NatsServer::start(&["--auth", &values.token]).await,
        ];
        let user = ConnectOptions::with_user_and_password(OPEN.to_owned(), values.nats.clone());
        create_stream(&nats[0], user, "nats").await;
        create_stream(&nats[1], ConnectOptions::with_token(values.token.clone()), "token").await;
        let kafka = KafkaServer::start_with(std::slice::from_ref(&listener)).await;
        kafka.create_topic("kafka", 1, &[]).await;
        let hook = hook(format!("Bearer {}", values.bearer)).await;
        let folder = Folder::new(OPEN);
        let collector = Collector::start();
        let place = Self {
            folder,
            redis,
            etcd,
            authority,
            member,
            listener,
            rabbitmq,
            nats,
            hook,
            collector,
            _kafka: kafka,
        };
        (place, values)
    }

    /// Of every program's client certificate for etcd.
    pub(super) fn key(&self) -> PathBuf {
        self.member.key.clone()
    }

    /// A configuration with every kind of secret; `timeout` applies to sinks.
    pub(super) fn configuration(&self, values: &Values, login: Login, timeout: &str) -> String {
        let (address, password) = (self.redis.address(), &values.redis);
        let file = self.folder.join(&format!("password-{password:.4}"));
        // Running programs read the file meanwhile, so the write is atomic.
        let fresh = file.with_extension("new");
        std::fs::write(&fresh, password).unwrap();
        std::fs::rename(&fresh, &file).unwrap();
        let as_user = |reference: String| {
            format!("url = 'redis://{address}'\nusername = '{OPEN}'\npassword = {reference}")
        };
        let redis = match login {
            Login::Url => format!("url = 'redis://{OPEN}:{password}@{address}'"),
            Login::Password => as_user(format!("'{password}'")),
            Login::File => as_user(format!("{{ file = '{}' }}", file.display())),
            Login::Variable => as_user(format!("{{ env = '{VARIABLE}' }}")),
        };
        let spool = self.folder.join("spool");
        std::fs::create_dir_all(&spool).unwrap();
        let (etcd, ca, certificate) =
            (&self.etcd.endpoints()[0], self.authority.authority(), &self.member.certificate);
        let sinks = SINKS.map(|sink| {
            let table = self.table(sink, values);
            let to = if sink == "list" { OPEN } else { sink };
            format!(
                "[sinks.{sink}]\ntimeout = '{timeout}'\n[sinks.{sink}.{table}\n\
                 [[routes]]\ntopic = '{sink}'\nsink = '{sink}'\nto = '{to}'\n"
            )
        });
        format!(
            "[deployment]\nshards = 2\n[redis]\n{redis}\n[etcd]\nendpoints = ['{etcd}']\nusername = '{OPEN}'\n\
             password = '{}'\nca = '{}'\ncert = '{}'\nkey = '{}'\n[admin]\nlisten = '127.0.0.1:0'\n\
             [log]\nfilter = 'trace'\nformat = 'json'\n[spool]\ndir = '{}'\n[timer]\nname = '{OPEN}'\n\
             [traces]\nendpoint = '{}'\nheaders = {{ authorization = '{}' }}\n\
             [forwarder]\nname = '{OPEN}'\n{}",
            values.etcd,
            ca.display(),
            certificate.display(),
            values.key.display(),
            spool.display(),
            self.collector.endpoint,
            values.collector,
            sinks.concat(),
        )
    }

    fn table(&self, sink: &str, values: &Values) -> String {
        let Values { kafka, rabbitmq, nats, token, secret, bearer, redis, .. } = values;
        let (host, [login, by_token]) = (self.redis.address(), &self.nats);
        let (login, by_token) = (login.url(), by_token.url());
        match sink {
            "kafka" => format!(
                "kafka]\nbrokers = ['{}']\nmechanism = 'PLAIN'\nusername = '{OPEN}'\npassword = '{kafka}'",
                self.listener.address()
            ),
            "rabbitmq" => format!(
                "rabbitmq]\nserver = '{}'\nusername = '{OPEN}'\npassword = '{rabbitmq}'\nexchange = 'amq.fanout'",
                self.rabbitmq.address()
            ),
            "nats" => format!("nats]\nservers = ['{login}']\nusername = '{OPEN}'\npassword = '{nats}'"),
            "token" => format!("nats]\nservers = ['{by_token}']\ntoken = '{token}'"),
            "hook" => format!("webhook]\nurl = '{}'\nsecret = '{secret}'\nbearer = '{bearer}'", self.hook),
            "stream" => {
                format!("redis]\n[sinks.stream.redis.server]\nurl = 'redis://{OPEN}:{redis}@{host}'")
            }
            _ => format!(
                "redis]\nas = 'list'\n[sinks.list.redis.server]\nurl = 'redis://{host}'\nusername = '{OPEN}'\n\
                 password = '{redis}'"
            ),
        }
    }
}

async fn create_stream(server: &NatsServer, login: ConnectOptions, name: &str) {
    let context = jetstream::new(login.connect(server.url()).await.unwrap());
    let config = Config { name: name.to_owned(), subjects: vec![name.to_owned()], ..Config::default() };
    context.create_stream(config).await.unwrap();
}

/// Accepts every request with this login; returns the URL.
async fn hook(login: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/{OPEN}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let login = login.clone();
            tokio::spawn(async move {
                let mut request = Vec::new();
                // Reads the body too: the system resets a connection that is closed with unread data.
                while !is_whole(&request) {
                    if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                let allowed = String::from_utf8_lossy(&request).contains(&login);
                let status = if allowed { "204 No Content" } else { "401 Unauthorized" };
                let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
                let _ = within("the answer", LONG, stream.write_all(answer.as_bytes())).await;
            });
        }
    });
    url
}

/// The head, and a body of `content-length`.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().filter_map(|line| line.split_once(": "));
    let length = length.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    body.len() >= length.map(|(_, length)| length.parse().unwrap()).next().unwrap_or(0)
}
