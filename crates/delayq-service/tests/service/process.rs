//! The life of a real process: signals, drain, exit codes, and notifications to the service manager.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Only a hanging process takes this long.
const BOUND: Duration = Duration::from_secs(90);

struct Living {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Living {
    fn start(manner: &str, environment: &[(&str, &str)]) -> Self {
        Self::start_with(&[], manner, environment)
    }

    fn start_with(arguments: &[&Path], manner: &str, environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new(example())
            .args(arguments)
            .env_clear()
            .env("DELAYQ__LIVING__MANNER", manner)
            .env("DELAYQ__LOG__FORMAT", "json")
            .env("DELAYQ__ADMIN__LISTEN", "127.0.0.1:0")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the example is built beside the tests");
        let stderr = child.stderr.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines, seen: Vec::new() }
    }

    fn until(&mut self, text: &str) -> Value {
        loop {
            let Ok(line) = self.lines.recv_timeout(BOUND) else {
                panic!("`{text}` never came:\n{}", self.seen.join("\n"));
            };
            self.seen.push(line.clone());
            if line.contains(text) {
                return serde_json::from_str(&line).unwrap_or_default();
            }
        }
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Repeats a signal until the process has ended: signals within a second of the first count as one request.
    fn signal_until_end(mut self, name: &str) -> (i32, String) {
        while self.child.try_wait().unwrap().is_none() {
            self.signal(name);
            if let Ok(line) = self.lines.recv_timeout(Duration::from_millis(50)) {
                self.seen.push(line);
            }
        }
        self.end()
    }

    fn end(mut self) -> (i32, String) {
        // The log ends with the process.
        while let Ok(line) = self.lines.recv_timeout(BOUND) {
            self.seen.push(line);
        }
        let log = self.seen.join("\n");
        let status = self.child.wait().unwrap();
        (status.code().unwrap_or(-1), log)
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn example() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join("living")
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn address(line: &Value) -> String {
    line["address"].as_str().unwrap().to_owned()
}

#[test]
fn either_signal_drains_and_ends_with_0() {
    for signal in ["TERM", "INT"] {
        let mut living = Living::start("obedient", &[]);
        living.until("\"started\"");
        living.signal(signal);
        let (code, log) = living.end();
        assert_eq!(code, 0, "{log}");
        assert!(log.contains("gave back what it held") && log.contains("\"drained\""), "{log}");
    }
}

#[cfg(feature = "kafka")]
#[test]
fn a_process_ends_well_while_clients_of_kafka_speak_tls() {
    for _ in 0..20 {
        let mut living = Living::start("speaks-tls", &[]);
        living.until("speaks TLS");
        living.signal("TERM");
        let (code, log) = living.end();
        assert_eq!(code, 0, "{log}");
    }
}

#[test]
fn a_hangup_reads_the_log_filter_again_and_leaves_it_where_the_configuration_is_faulty() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("delayq.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("[log]\nfilter = 'info'\n");
    let mut living = Living::start_with(&[&file], "obedient", &[]);
    living.until("\"started\"");
    write("[log]\nfilter = 'info=['\n");
    living.signal("HUP");
    living.until("the log filter is unchanged");
    write("[log]\nfilter = 'info,living=debug'\n");
    living.signal("HUP");
    let line = living.until("log filter reloaded");
    assert_eq!(line["filter"], "info,living=debug");
    write("[log]\nfilter = 'error'\n");
    living.signal("HUP");
    living.signal("TERM");
    let (code, log) = living.end();
    assert_eq!(code, 0, "{log}");
}

#[test]
fn a_signal_before_the_configuration_is_read_ends_it_with_0_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("delayq.toml");
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    for manner in ["obedient", "build-waits"] {
        let living = Living::start_with(&[&file], manner, &[]);
        // Opening the pipe for writing succeeds once the process reads its configuration, which ends when the pipe
        // closes.
        let configuration = std::fs::File::options().write(true).open(&file).unwrap();
        living.signal("TERM");
        drop(configuration);
        let (code, log) = living.end();
        assert_eq!(code, 0, "{manner}: {log}");
        assert!(log.contains("stopping; a second signal stops at once"), "{manner}: {log}");
    }
}

#[test]
fn the_probes_follow_the_life_of_the_process() {
    let mut living = Living::start("build-waits", &[]);
    let address = address(&living.until("admin endpoint listening"));
    living.until("building");
    assert!(get(&address, "/readyz").contains(r#"[{"condition":"process","reason":"starting"}]"#));
    assert!(get(&address, "/livez").contains("alive"));
    drop(living);

    let mut living = Living::start("stuck", &[("DELAYQ__SHUTDOWN__DRAIN_DEADLINE", "10m")]);
    let address = self::address(&living.until("admin endpoint listening"));
    living.until("\"started\"");
    assert!(get(&address, "/readyz").starts_with("HTTP/1.1 200"));
    living.signal("TERM");
    living.until("gave back what it held");
    // The probe may arrive between the request and the change of the condition.
    while !get(&address, "/readyz").contains(r#""reason":"draining""#) {}
    let (code, log) = living.signal_until_end("TERM");
    assert_eq!(code, 75, "{log}");
    assert!(log.contains("second signal") && log.contains("\"left_running\":\"heart\""), "{log}");
}

fn health(address: &str) -> (Option<i32>, String) {
    let mut command = Command::new(example());
    command.arg("--healthcheck").env_clear().env("DELAYQ__ADMIN__LISTEN", address);
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_health_check_needs_no_http_client_and_names_what_is_not_ready() {
    let mut living = Living::start("build-waits", &[]);
    let starting = address(&living.until("admin endpoint listening"));
    living.until("building");
    let (code, words) = health(&starting);
    assert!(code == Some(69) && words.contains("DQ-P006") && words.contains("starting"), "{code:?} {words}");
    drop(living);
    let (code, words) = health(&starting);
    assert!(code == Some(69) && words.contains("does not answer"), "{code:?} {words}");

    let mut living = Living::start("obedient", &[]);
    let ready = address(&living.until("admin endpoint listening"));
    living.until("\"started\"");
    assert_eq!(health(&ready), (Some(0), String::new()));
    assert_eq!(health("").0, Some(69));
}

#[test]
fn two_signals_at_one_instant_are_not_a_hard_stop() {
    let mut living = Living::start("stuck", &[("DELAYQ__SHUTDOWN__DRAIN_DEADLINE", "3s")]);
    living.until("\"started\"");
    let pid = living.child.id();
    let both = format!("kill -TERM {pid}; kill -INT {pid}; kill -TERM {pid}");
    assert!(Command::new("sh").args(["-c", &both]).status().unwrap().success());
    living.until("duplicate signal ignored");
    let (code, log) = living.end();
    assert!(code == 75 && log.contains("DQ-P003: after 3s still running: heart"), "{code}: {log}");
    assert!(!log.contains("second signal: stopping"), "{log}");
}

#[test]
fn a_drain_past_its_deadline_names_what_still_runs() {
    let mut living = Living::start("stuck", &[("DELAYQ__SHUTDOWN__DRAIN_DEADLINE", "100ms")]);
    living.until("\"started\"");
    living.signal("TERM");
    let (code, log) = living.end();
    assert_eq!(code, 75, "{log}");
    assert!(log.contains("DQ-P003: after 100ms still running: heart"), "{log}");
}

#[test]
fn a_task_that_ends_unasked_ends_the_process_and_the_others_still_drain() {
    for (manner, code, message) in [
        ("returns", 70, "DQ-P002: the task `heart` returned"),
        ("panics", 70, "DQ-P002: the task `heart` panicked"),
        ("fails", 69, "DQ-P001: the task `heart` failed: the heart is weak"),
    ] {
        let (ended, log) = Living::start(manner, &[]).end();
        assert_eq!(ended, code, "{log}");
        assert!(log.contains(message) && log.contains("gave back what it held"), "{log}");
    }
}

#[test]
fn a_panic_is_logged_with_its_place() {
    let (_, log) = Living::start("panics", &[]).end();
    let line = log.lines().find(|line| line.contains("panic: the heart is broken")).expect(&log);
    let line: Value = serde_json::from_str(line).unwrap();
    assert!(line["location"].as_str().unwrap().contains("living.rs:"), "{line}");
}

#[test]
fn a_fault_while_draining_decides_the_exit_code() {
    let mut living = Living::start("fails-last", &[]);
    living.until("\"started\"");
    living.signal("TERM");
    let (code, log) = living.end();
    assert_eq!(code, 69, "{log}");
    assert!(log.contains("nothing could be given back"), "{log}");
}

#[test]
fn a_build_that_fails_panics_or_is_stopped_ends_as_it_should() {
    let (code, log) = Living::start("build-fails", &[]).end();
    assert!(code == 69 && log.contains("DQ-P001: nothing here can be built"), "{code}: {log}");
    let (code, log) = Living::start("build-panics", &[]).end();
    assert!(code == 70 && log.contains("panic: no such thing can be built"), "{code}: {log}");
    let mut living = Living::start("build-waits", &[]);
    living.until("building");
    living.signal("TERM");
    let (code, log) = living.end();
    assert!(code == 0 && log.contains("stopped before everything was built"), "{code}: {log}");
}

#[test]
fn an_option_that_is_invalid_ends_with_64_and_a_question_with_0() {
    let (code, log) = Living::start_with(&[Path::new("--confg")], "obedient", &[]).end();
    assert!(code == 64 && log.contains("unknown option --confg"), "{code}: {log}");
    let (code, log) = Living::start_with(&[Path::new("--version")], "obedient", &[]).end();
    assert_eq!((code, log.as_str()), (0, ""));
}

#[test]
fn a_faulty_configuration_ends_with_78_and_all_faults_in_plain_text() {
    let environment = [("DELAYQ__SHUTDOWN__DRAIN_DEADLINE", "1h"), ("DELAYQ__LOG__FORMTA", "json")];
    let (code, log) = Living::start("obedient", &environment).end();
    assert_eq!(code, 78, "{log}");
    assert!(log.starts_with("living: DQ-C001: 2 faults in the environment\n"), "{log}");
    assert!(log.contains("\n  DELAYQ__LOG__FORMTA: log.formta: unknown field"), "{log}");
    let (code, log) = Living::start("obedient", &[("RUST_LOG", "info=[")]).end();
    assert!(code == 78 && log.contains("DQ-C003: RUST_LOG"), "{code}: {log}");
}

#[test]
fn a_taken_admin_address_ends_with_69() {
    let mut living = Living::start("obedient", &[]);
    let address = address(&living.until("admin endpoint listening"));
    let (code, log) = Living::start("obedient", &[("DELAYQ__ADMIN__LISTEN", &address)]).end();
    assert!(code == 69 && log.contains("DQ-P001") && log.contains(&address), "{code}: {log}");
}

#[test]
fn the_service_manager_is_told_of_readiness_life_and_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(BOUND)).unwrap();
    let told = |expected: &str| {
        let mut bytes = [0; 256];
        loop {
            let length = manager.recv(&mut bytes).expect(expected);
            if String::from_utf8_lossy(&bytes[..length]).lines().any(|line| line == expected) {
                return;
            }
        }
    };
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "50000")];
    let living = Living::start("obedient", &environment);
    told("READY=1");
    told("WATCHDOG=1");
    told("WATCHDOG=1");
    living.signal("TERM");
    told("STOPPING=1");
    assert_eq!(living.end().0, 0);
}
