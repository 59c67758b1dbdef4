//! TLS and login are written the same way in every section, and each fault has the line of its key.

use delayq_tests::binary::Binary;
use delayq_tests::certs::{Authority, Certificate};
use delayq_tests::deadline::SHORT;
use delayq_tests::folder::Folder;
use std::path::Path;

/// A section with PEM files.
struct TlsCase {
    /// The header of the table.
    header: &'static str,
    /// Keys with which TLS is off.
    off: &'static str,
    /// Keys with which TLS is on.
    on: &'static str,
}

const fn tls(header: &'static str, off: &'static str, on: &'static str) -> TlsCase {
    TlsCase { header, off, on }
}

const SENTINELS: &str = "nodes = ['s:1']\nservice = 'm'\n";
const WEBHOOK: [&str; 2] = ["url = 'http://h/'\n", "url = 'https://h/'\n"];
const SQS: [&str; 2] = ["endpoint = 'http://h:1'\n", ""];
const NATS: [&str; 2] = ["", "servers = ['tls://h:1']\n"];
const SWITCH: [&str; 2] = ["", "tls = true\n"];

const TLS: [TlsCase; 13] = [
    tls("redis", "url = 'redis://h:1'\n", "url = 'rediss://h:1'\n"),
    tls("redis.sentinel", SENTINELS, "nodes = ['s:1']\nservice = 'm'\ntls = true\n"),
    tls("etcd", "", "endpoints = ['https://h:1']\n"),
    tls("outbox", SWITCH[0], SWITCH[1]),
    tls("sinks.s.webhook", WEBHOOK[0], WEBHOOK[1]),
    tls("sinks.s.kafka", SWITCH[0], SWITCH[1]),
    tls("sinks.s.rabbitmq", SWITCH[0], SWITCH[1]),
    tls("sinks.s.sqs", SQS[0], SQS[1]),
    tls("sinks.s.redis.server", "url = 'redis://h:1'\n", "url = 'rediss://h:1'\n"),
    tls("intake.i.kafka", SWITCH[0], SWITCH[1]),
    tls("intake.i.rabbitmq", SWITCH[0], SWITCH[1]),
    tls("intake.i.sqs", SQS[0], SQS[1]),
    tls("gateway", "", ""),
];

/// The sections of NATS, where `ca` or `cert` alone turns TLS on.
const ON_BY_FILES: [TlsCase; 2] =
    [tls("sinks.s.nats", NATS[0], NATS[1]), tls("intake.i.nats", NATS[0], NATS[1])];

/// A section with a login, its other keys, and whether its server has a default user.
const LOGINS: [(&str, &str, bool); 10] = [
    ("redis", "", true),
    ("redis.sentinel", SENTINELS, true),
    ("etcd", "", false),
    ("sinks.s.kafka", "mechanism = 'PLAIN'\n", false),
    ("sinks.s.nats", "", false),
    ("sinks.s.rabbitmq", "", true),
    ("sinks.s.redis.server", "", true),
    ("intake.i.kafka", "mechanism = 'PLAIN'\n", false),
    ("intake.i.nats", "", false),
    ("intake.i.rabbitmq", "", true),
];

/// The faults of a section's own keys, each as `LINE: KEY: MESSAGE`; line 2 is the first below the header.
async fn faults(folder: &Folder, header: &str, keys: &str) -> Vec<String> {
    let file = folder.join("delayq.toml");
    std::fs::write(&file, format!("[{header}]\n{keys}")).unwrap();
    let check = Binary::new("delayq").arg("--config").arg(&file).args(["config", "check", "--offline"]);
    let said = check.run(b"", SHORT).await.stderr;
    let (file, own) = (format!("{}:", file.display()), format!(": {header}."));
    let of_file = said.lines().filter_map(|line| line.trim().strip_prefix(&file));
    let of_section = of_file.filter(|fault| fault.contains(&own));
    of_section.map(|fault| fault.replacen(&own, ": ", 1)).collect()
}

fn assert_one(found: &[String], start: &str, words: &str, of: &str) {
    assert_eq!(found.len(), 1, "{of}: {found:?}");
    assert!(found[0].starts_with(start) && found[0].contains(words), "{of}: {found:?}");
}

fn file(key: &str, path: &Path) -> String {
    format!("{key} = '{}'\n", path.display())
}

#[tokio::test]
async fn each_section_refuses_the_same_faults_of_tls_under_the_same_keys() {
    let (folder, authority) = (Folder::new("access"), Authority::new());
    let [one, other] = ["one", "other"].map(|name| authority.sign(name, &[name]));
    let ca = file("ca", &authority.authority());
    let own = |certificate: &Certificate, key: &Certificate| {
        file("cert", &certificate.certificate) + &file("key", &key.key)
    };
    for TlsCase { header, off, on } in TLS {
        let line = |keys: &str| keys.lines().count() + 2;
        let is_gateway = header == "gateway";
        let found = faults(&folder, header, &format!("{off}{ca}")).await;
        assert_one(&found, &format!("{}: ca: ", line(off)), "`ca` needs TLS, but ", header);
        // The gateway's own certificate is what turns TLS on.
        let on = if is_gateway { own(&one, &one) } else { on.to_owned() };
        let found = faults(&folder, header, &format!("{on}ca = '/nowhere'\n")).await;
        assert_one(&found, &format!("{}: ca: ", line(&on)), "cannot read", header);
        let found = faults(&folder, header, &format!("{on}{ca}")).await;
        assert!(found.is_empty(), "{header}: {found:?}");
    }
    for TlsCase { header, on, .. } in TLS.into_iter().chain(ON_BY_FILES) {
        let of = |rest: String| format!("{on}{ca}{rest}");
        let found = faults(&folder, header, &of(file("cert", &one.certificate))).await;
        assert_one(&found, "", "cert: `cert` and `key` belong together", header);
        let found = faults(&folder, header, &of(own(&one, &other))).await;
        assert_one(&found, "", "key: not the private key of `cert`", header);
        let found = faults(&folder, header, &of(own(&one, &one))).await;
        assert!(found.is_empty(), "{header}: {found:?}");
        let found = faults(&folder, header, &format!("ca = 5\ncret = 'a'\n{on}")).await;
        assert_eq!(found.len(), 2, "{header}: {found:?}");
        assert!(found[0].starts_with("2: ca: invalid type"), "{header}: {found:?}");
        assert!(found[1].starts_with("3: cret: unknown field `cret`"), "{header}: {found:?}");
        assert!(found[1].contains("`ca`, `cert`, `key`"), "{header}: {found:?}");
    }
}

#[tokio::test]
async fn each_section_refuses_the_same_faults_of_a_login_under_the_same_keys() {
    let folder = Folder::new("access");
    for (header, keys, has_default_user) in LOGINS {
        let found = faults(&folder, header, &format!("username = 'u'\n{keys}")).await;
        assert_one(&found, "2: username: ", "a user needs a `password`", header);
        let unreadable = "username = 'u'\npassword = { file = '/nowhere' }\n";
        let found = faults(&folder, header, &format!("{unreadable}{keys}")).await;
        assert_one(&found, "3: password: ", "cannot read", header);
        let found = faults(&folder, header, &format!("password = 'hunter2'\n{keys}")).await;
        match has_default_user {
            true => assert!(found.is_empty(), "{header}: {found:?}"),
            false => assert_one(&found, "2: password: ", "a password needs a `username`", header),
        }
        let found = faults(&folder, header, &format!("username = 'u'\npassword = 'p'\n{keys}")).await;
        assert!(found.is_empty(), "{header}: {found:?}");
    }
}
