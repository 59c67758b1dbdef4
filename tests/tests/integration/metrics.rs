//! The page of metrics (docs/metrics.md) lists exactly the exported metrics, and names follow Prometheus's rules.

use delayq::{Message, Topic};
use delayq_tests::admin_endpoint::AdminEndpoint;
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{SHORT, wait_for};
use delayq_tests::deployment::Deployment;
use delayq_tests::folder::Folder;
use delayq_tests::generated::{compare, with_rows};
use delayq_tests::process::Process;
use delayq_tests::redis_server::RedisServer;
use delayq_tests::shared;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Exported {
    kind: String,
    labels: BTreeSet<String>,
    unit: String,
    meaning: String,
}

/// By query name; a histogram by the common beginning of its series.
type All = BTreeMap<String, Exported>;

const SECTIONS: [(&str, &[usize]); 5] = [
    ("Every process", &[0, 1, 2, 3]),
    ("Timer", &[0]),
    ("Forwarder", &[1]),
    ("Compensator", &[2]),
    ("Gateway", &[3]),
];

/// Endings of a state's name, which has to be a label.
const STATES: [&str; 6] = ["empty", "failed", "ok", "success", "waiting", "kept"];

fn parse(text: &str) -> All {
    let (mut all, mut known) = (All::new(), Exported::default());
    let mut name = String::new();
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# ") {
            let mut words = described.splitn(3, ' ');
            let (word, of, rest) = (words.next(), words.next(), words.next().unwrap_or_default());
            match (word, of) {
                (Some("HELP"), Some(of)) => {
                    known = Exported { meaning: rest.to_owned(), ..Exported::default() };
                    of.clone_into(&mut name);
                }
                (Some("TYPE"), Some(_)) => {
                    rest.clone_into(&mut known.kind);
                    name += match rest {
                        "counter" => "_total",
                        "info" => "_info",
                        _ => "",
                    };
                    assert!(all.insert(name.clone(), known.clone()).is_none(), "{name} is there twice");
                }
                (Some("UNIT"), Some(_)) => rest.clone_into(&mut all.get_mut(&name).unwrap().unit),
                _ => {}
            }
        } else {
            let metric = all.get_mut(&name).unwrap_or_else(|| panic!("{line} is not described"));
            metric.labels.extend(labels(line).into_iter().filter(|label| label != "le"));
        }
    }
    all
}

fn labels(sample: &str) -> Vec<String> {
    let mut labels = Vec::new();
    let Some((_, mut rest)) = sample.split_once('{') else { return labels };
    while let Some((label, value)) = rest.split_once("=\"") {
        labels.push(label.to_owned());
        let end = value.match_indices('"').find(|(at, _)| !value[..*at].ends_with('\\')).unwrap().0;
        rest = value[end + 1..].trim_start_matches(',');
    }
    labels
}

fn faults(name: &str, metric: &Exported) -> Vec<String> {
    let mut faults = Vec::new();
    let mut rule = |holds: bool, rule: &str| {
        if !holds {
            faults.push(format!("{name}: {rule}"));
        }
    };
    let words: Vec<&str> = name.split('_').collect();
    let has = |word: &str| words.contains(&word);
    let base = name.strip_suffix("_total").unwrap_or(name);
    rule(name.starts_with("delayq_"), "begins with delayq_");
    rule(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'), "snake case");
    rule(metric.kind != "unknown", "has a type");
    rule(
        (metric.kind == "counter") == name.ends_with("_total"),
        "a counter, and nothing else, ends in _total",
    );
    rule((metric.kind == "info") == name.ends_with("_info"), "an info, and nothing else, ends in _info");
    rule(metric.unit.is_empty() || base.ends_with(&format!("_{}", metric.unit)), "ends with its unit");
    rule(["", "seconds", "bytes", "ratio"].contains(&metric.unit.as_str()), "in seconds, bytes or a ratio");
    for word in ["seconds", "bytes", "ratio"] {
        rule(!has(word) || metric.unit == word, "the unit in its name is the one that it is exported with");
    }
    for word in ["ms", "us", "milliseconds", "microseconds", "minutes", "kib", "mib", "percent"] {
        rule(!has(word), "a base unit");
    }
    let moment = metric.meaning.to_lowercase().contains("unix time");
    rule(
        moment == name.ends_with("_timestamp_seconds"),
        "a moment, and nothing else, is a _timestamp_seconds",
    );
    for word in ["count", "sum", "bucket"] {
        rule(!base.ends_with(&format!("_{word}")), "no suffix that a histogram's series have");
    }
    for state in STATES {
        rule(!base.ends_with(&format!("_{state}")), "a state is a label, and no part of the name");
    }
    rule(!metric.meaning.trim_end_matches('.').is_empty(), "says what it means");
    faults
}

fn table(of: &All) -> Vec<String> {
    let row = |(name, metric): (&String, &Exported)| {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (kind, unit, meaning) = (&metric.kind, &metric.unit, metric.meaning.trim_end_matches('.'));
        format!("| `{name}` | {kind} | {} | {unit} | {} |", labels.join(", "), meaning.replace('|', "\\|"))
            .replace("  ", " ")
    };
    of.iter().map(row).collect()
}

fn sections(page: &str) -> BTreeMap<String, Vec<String>> {
    let mut sections: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut section = String::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            title.clone_into(&mut section);
        } else if line.starts_with("| `delayq_") {
            sections.entry(section.clone()).or_default().push(line.to_owned());
        }
    }
    sections
}

struct Run {
    _deployment: Deployment,
    _folder: Folder,
    _processes: Vec<Process>,
    endpoints: Vec<AdminEndpoint>,
}

impl Run {
    async fn start() -> Self {
        let deployment = Deployment::on(RedisServer::start().await, 2).await;
        let folder = Folder::new("metrics");
        for name in ["spool", "out"] {
            fs::create_dir(folder.join(name)).unwrap();
        }
        let config = folder.join("delayq.toml");
        let etcd = shared::etcd_endpoints().await;
        let text = format!(
            "[deployment]\nshards = 2\n[timer]\nhorizons = [\"1m\"]\n[redis]\nurl = {:?}\n[etcd]\nendpoints = {etcd:?}\nprefix = \"/{}\"\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n[spool]\ndir = {:?}\n[outbox]\nurl = \"postgres://127.0.0.1:1/none\"\n[sinks.out.file]\ndir = {:?}\n\
             [[routes]]\ntopic = \"orders\"\nsink = \"out\"\n[intake.in]\ndead = \"dead\"\n[intake.in.kafka]\nbrokers = [\"127.0.0.1:1\"]\n\
             [gateway]\nlisten = \"127.0.0.1:0\"\n",
            deployment.server.url(),
            shared::namespace(),
            folder.join("spool"),
            folder.join("out"),
        );
        fs::write(&config, text).unwrap();
        let (mut processes, mut endpoints) = (Vec::new(), Vec::new());
        for program in ["delayq-timer", "delayq-forwarder", "delayq-compensator", "delayq-gateway"] {
            let mut process = Binary::new(program).arg(&config).start();
            endpoints.push(AdminEndpoint::of(&mut process).await);
            processes.push(process);
        }
        let listening = processes[3].wait_for_line("gateway listening", SHORT).await;
        let listening: serde_json::Value = serde_json::from_str(&listening).unwrap();
        AdminEndpoint::at(listening["address"].as_str().unwrap()).get("/v1/topics").await;
        let due = delayq::UnixMillis::new(deployment.now().await.get() + 300);
        deployment.put([Message::new(Topic::new("orders").unwrap(), "17").at(due)]).await;
        Self { _deployment: deployment, _folder: folder, _processes: processes, endpoints }
    }

    /// The metrics of each, after everything that adds a series.
    async fn exported(&self) -> Vec<All> {
        let done = [
            "timer_epoch{",
            "forwarder_settled_total{word=\"delivered\"",
            "source_records{",
            "gateway_requests_total{",
        ];
        let mut exported = Vec::new();
        for (endpoint, done) in self.endpoints.iter().zip(done) {
            let what = format!("a series of delayq_{done}");
            let all = wait_for(&what, SHORT, || async {
                let (_, text) = endpoint.get("/metrics").await;
                text.contains(&format!("delayq_{done}")).then(|| parse(&text))
            });
            exported.push(all.await);
        }
        exported
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_metrics_is_what_the_programs_export_and_the_names_follow_the_rules() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/metrics.md");
    let mut exported = Run::start().await.exported().await;
    let wrong: Vec<String> =
        exported.iter().flatten().flat_map(|(name, metric)| faults(name, metric)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let mut expected = BTreeMap::new();
    for (title, processes) in SECTIONS {
        let (first, others) = processes.split_first().unwrap();
        let in_all = |name: &&String| others.iter().all(|other| exported[*other].contains_key(*name));
        let names: BTreeSet<String> = exported[*first].keys().filter(in_all).cloned().collect();
        let of = exported[*first].iter().filter(|(name, _)| names.contains(*name));
        expected.insert(
            title.to_owned(),
            table(&of.map(|(name, metric)| (name.clone(), metric.clone())).collect()),
        );
        for process in processes {
            exported[*process].retain(|name, _| !names.contains(name));
        }
    }
    let text = fs::read_to_string(&page).unwrap();
    let mut shown = sections(&text);
    let script = fs::read_to_string(page.parent().unwrap().join("../deploy/prometheus/audit.sh")).unwrap();
    for row in shown.remove("From the audit").unwrap() {
        let name = row.split('`').nth(1).unwrap();
        assert!(script.contains(&format!("# TYPE {name} gauge")), "the audit writes no {name}");
    }
    let check = page.parent().unwrap().join("../crates/delayq-cli/src/commands/check/print.rs");
    let check = fs::read_to_string(check).unwrap();
    for row in shown.remove("From the check").unwrap() {
        let name = row.split('`').nth(1).unwrap().strip_prefix("delayq_check_").unwrap();
        assert!(check.contains(&format!("\"{name}\"")), "delayq check prints no {name}");
    }
    let rows = |title: &str| expected.get(title).cloned();
    compare(&page, &with_rows(&text, rows), "-p delayq-tests --test integration -- metrics::");
}

#[test]
fn a_name_that_breaks_a_rule_is_named() {
    let metric = |kind: &str, unit: &str, meaning: &str| Exported {
        kind: kind.to_owned(),
        unit: unit.to_owned(),
        meaning: meaning.to_owned(),
        ..Exported::default()
    };
    let sound = [
        ("delayq_moved_total", metric("counter", "", "Messages")),
        ("delayq_lateness_seconds", metric("histogram", "seconds", "How late")),
        ("delayq_due_timestamp_seconds", metric("gauge", "seconds", "Unix time at which")),
        ("delayq_build_info", metric("info", "", "The version")),
    ];
    for (name, metric) in sound {
        assert_eq!(faults(name, &metric), Vec::<String>::new());
    }
    for (name, metric) in [
        ("delayq_moved", metric("counter", "", "Messages")),
        ("delayq_shards_total", metric("gauge", "", "Shards")),
        ("delayq_late_ms", metric("gauge", "", "How late")),
        ("delayq_late_seconds", metric("gauge", "", "How late")),
        ("delayq_late", metric("gauge", "seconds", "How late")),
        ("delayq_next_due_seconds", metric("gauge", "seconds", "Unix time at which")),
        ("delayq_calls_empty_total", metric("counter", "", "Calls that were empty")),
        ("delayq_shards_count", metric("gauge", "", "Shards")),
        ("timer_shards", metric("gauge", "", "Shards")),
        ("delayq_shards", metric("gauge", "", "")),
    ] {
        assert_eq!(faults(name, &metric).len(), 1, "{name}: {:?}", faults(name, &metric));
    }
}

#[test]
fn labels_are_read_whatever_their_values_hold() {
    let sample = r#"delayq_circuit{sink="a",destination="{topic},\"x\""} 1"#;
    assert_eq!(labels(sample), ["sink", "destination"]);
    assert_eq!(labels("delayq_shards 1"), Vec::<String>::new());
}
