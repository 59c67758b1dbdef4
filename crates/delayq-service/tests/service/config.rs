//! Loading a configuration: every fault at once, each with its key and location, and never a secret.

use delayq_service::config::{
    ConfigFaults, DeploymentConfig, Environment, Faults, HumanDuration, Listen, Location, RedisConfig,
    SECTIONS, Section, Source, SpoolConfig, check_sample, effective, load,
};
use delayq_service::{Exit, Fault};
use serde::{Deserialize, Serialize};

delayq_service::sections! {
    #[derive(PartialEq)]
    struct Config {
        deployment: DeploymentConfig,
        redis: RedisConfig,
        spool: SpoolConfig,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        routes: Vec<Route>,
    } and |config, at| {
        if config.routes.len() > 1 {
            at.refuse("routes", "expected one route");
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Route {
    topic: String,
    sink: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<String>,
}

impl Section for Route {
    fn validate(&self, at: &mut Faults) {
        if self.sink.is_empty() {
            at.refuse("sink", "expected the name of a sink");
        }
    }
}

fn loaded(text: &str, environment: &Environment) -> Result<Config, ConfigFaults> {
    load(&Source::text("delayq.toml", text), environment).map(|loaded| loaded.config)
}

fn faults(text: &str) -> ConfigFaults {
    loaded(text, &Environment::empty()).unwrap_err()
}

fn lines(faults: &ConfigFaults) -> Vec<(usize, &str)> {
    let line = |location: &Location| if let Location::Line(line) = location { *line } else { 0 };
    faults.faults().iter().map(|fault| (line(&fault.location), fault.key.as_str())).collect()
}

#[test]
fn every_fault_is_reported_at_once_with_key_and_line() {
    let faults = faults(
        "[deployment]\nshrads = 16\nshards = 'many'\nnamespace = 'N.o'\n[redis]\ncall_deadline = \
         250\nkeepalive = '1h'\nca = '/ca.pem'\n[admin]\nlisten = 'nowhere'\nmax_connections = \
         64\n[timmer]\nx = 1\n[log]\nformat = 'xml'\nfilter = 'info=['\n[[routes]]\ntopic = \
         'a'\n[[routes]]\ntopic = 'b'\nsink = ''\n",
    );
    let expected = [
        (2, "deployment.shrads"),
        (3, "deployment.shards"),
        (4, "deployment.namespace"),
        (6, "redis.call_deadline"),
        (7, "redis.keepalive"),
        (8, "redis.ca"),
        (10, "admin.listen"),
        (11, "admin.max_connections"),
        (12, "timmer"),
        (15, "log.format"),
        (16, "log.filter"),
        (17, "routes[0]"),
        (21, "routes[1].sink"),
    ];
    assert_eq!(lines(&faults), expected, "{faults}");
}

#[test]
fn the_report_says_what_a_key_accepts_and_ends_with_78() {
    let faults = faults("[redis]\ncall_deadline = 250\nurll = 'x'\n[deployment]\nshards = 5000");
    assert_eq!(
        faults.to_string(),
        "3 faults in delayq.toml\n  \
         delayq.toml:2: redis.call_deadline: a bare number, expected a duration with its unit in quotes, such as \"250ms\" or \"2h30m\"\n  \
         delayq.toml:3: redis.urll: unknown field `urll`, expected one of `url`, `connect_timeout`, `call_deadline`, `confirm_timeout`, `keepalive`, `sentinel`, `nodes`, `ca`, `cert`, `key`, `username`, `password`\n  \
         delayq.toml:5: deployment.shards: a deployment has 1 to 4096 shards, not 5000"
    );
    let fault = Fault::from(faults);
    assert_eq!((fault.code().id, fault.exit()), ("DQ-C001", Exit::Config));
}

#[test]
fn broken_syntax_does_not_hide_the_other_faults() {
    let faults = faults("[redis]\nurl = redis://h\n[deployment]\nshrads = 1\nshards = 0\n[admin\n");
    let lines: Vec<usize> = lines(&faults).into_iter().map(|(line, _)| line).collect();
    for line in [2, 4, 5, 6] {
        assert!(lines.contains(&line), "line {line} is not in\n{faults}");
    }
}

#[test]
fn contradictions_name_the_key_that_was_written() {
    for (text, key, line) in [
        ("[redis]\nurl = 'redis://:a@h:1'\npassword = 'b'", "redis.password", 3),
        ("[redis]\nusername = 'u'", "redis.username", 2),
        ("[redis]\nca = '/ca.pem'", "redis.ca", 2),
        ("[spool]\ndir = 'here'", "spool.dir", 2),
    ] {
        let faults = faults(text);
        assert_eq!(lines(&faults), [(line, key)], "{faults}");
    }
}

#[test]
fn a_key_that_is_faulty_already_is_not_blamed_for_a_contradiction() {
    // Without a password the user would be a fault too.
    let faults = faults("[redis]\nusername = 'u'\npassword = 7");
    assert_eq!(lines(&faults), [(3, "redis.password")], "{faults}");
}

#[test]
fn a_fault_of_a_list_does_not_hide_one_of_its_elements() {
    let faults = faults("[[routes]]\ntopic = 'a'\nsink = 'b'\n[[routes]]\ntopic = 'c'\nsink = ''");

    let keys: Vec<&str> = faults.faults().iter().map(|fault| fault.key.as_str()).collect();
    assert_eq!(keys, ["routes", "routes[1].sink"], "{faults}");
}

#[test]
fn no_fault_repeats_a_secret() {
    for text in [
        "[redis]\npassword = hunter2",
        "[redis]\npassword = 'hunter2",
        "[redis]\npassword = ['hunter2']",
        "[redis]\npassword = { text = 'hunter2' }",
        "[redis]\npasword = 'hunter2'",
        "[redis]\nurl = 'http://:hunter2@h'",
        "[redis]\nurl = ['redis://:hunter2@h']",
        "[redis]\nurl = 'redis://:hunter2@h:1'\npassword = 'hunter2'",
    ] {
        let faults = faults(text);
        assert!(!faults.to_string().contains("hunter2"), "{faults}");
        assert!(!format!("{faults:?}").contains("hunter2"), "{faults:?}");
    }
}

#[test]
fn the_environment_overrides_the_file_without_quotes() {
    let file = "[deployment]\nshards = 'overridden'";
    let known = [
        ("DELAYQ__DEPLOYMENT__SHARDS", "64"),
        ("DELAYQ__REDIS__CALL_DEADLINE", "250ms"),
        ("DELAYQ__REDIS__PASSWORD", "1234"),
        ("DELAYQ__ADMIN__LISTEN", ""),
        ("DELAYQ__ROUTES", "[{ topic = 'a', sink = 'b' }]"),
    ];
    let more = [("DELAYQ__REDIS__CA", "/ca.pem"), ("DELAYQ__TIMER__RESOLUTION", "of another role")];
    let faults = loaded(file, &Environment::of(known.into_iter().chain(more))).unwrap_err();
    assert_eq!(faults.faults()[0].location, Location::Variable("DELAYQ__REDIS__CA".into()), "{faults}");
    assert_eq!(faults.faults().len(), 1, "{faults}");

    let config = loaded(file, &Environment::of(known)).unwrap();
    assert_eq!(config.deployment.shards.get(), 64);
    assert_eq!(config.redis.call_deadline, HumanDuration::from_millis(250));
    assert_eq!(
        delayq_service::config::ExposeSecret::expose_secret(
            &config.redis.login.password.unwrap().reveal().unwrap()
        ),
        "1234"
    );
    assert_eq!(config.admin.listen, Listen::Off);
    assert_eq!(config.routes[0].sink, "b");
}

#[test]
fn a_fault_of_the_environment_names_its_variable() {
    for (name, text, message) in [
        ("DELAYQ__DEPLOYMENT__SHARDS", "many", "invalid type: a string, expected a whole number"),
        ("DELAYQ__DEPLOYMENT__SHARDS", "70000", "integer `70000`"),
        ("DELAYQ__DEPLOYMENT__SHARDS", "5000", "1 to 4096"),
        ("DELAYQ__DEPLOYMENT__SHRADS", "5", "unknown field `shrads`"),
        ("DELAYQ__DEPLOYMNT__SHARDS", "5", "unknown field `deploymnt`"),
        ("DELAYQ__REDIS__URL__HOST", "h", "holds no keys"),
        ("DELAYQ__redis__URL", "redis://h", "upper case"),
        ("DELAYQ_REDIS__URL", "redis://h", "write DELAYQ__SECTION__KEY"),
    ] {
        let environment = Environment::of([(name, text)]);
        let faults = loaded("[redis]\nurl = 'redis://h:1'", &environment).unwrap_err();
        let [fault] = faults.faults() else { panic!("{faults}") };
        assert_eq!(fault.location, Location::Variable(name.into()));
        assert!(fault.message.contains(message), "{faults}");
    }
}

#[test]
fn sections_of_other_roles_are_passed_over_and_misspelled_ones_are_not() {
    assert_eq!(
        loaded("[forwarder]\nx = 1\n[sinks.a]\nkind = 'kafka'", &Environment::empty()).unwrap(),
        Config::default()
    );
    assert_eq!(lines(&faults("[forwarderer]\nx = 1")), [(1, "forwarderer")]);
}

#[test]
fn an_unreadable_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing.toml");
    let faults = load::<Config>(&Source::File(path.clone()), &Environment::empty()).unwrap_err();
    assert!(faults.to_string().contains(&path.display().to_string()), "{faults}");
    assert_eq!(Fault::from(faults).code().id, "DQ-C002");
}

#[test]
fn a_secret_file_that_is_missing_is_a_fault_of_its_line() {
    let faults = faults("[redis]\n\npassword = { file = '/nonexistent/password' }");
    assert_eq!(lines(&faults), [(3, "redis.password")]);
    assert!(faults.to_string().contains("cannot read the secret"), "{faults}");
}

#[test]
fn the_effective_configuration_loads_to_itself_and_hides_secrets() {
    let text = "[redis]\npassword = 'hunter2'\nurl = 'redis://h:1'\n[[routes]]\ntopic = 'a'\nsink = 'b'";
    let config = loaded(text, &Environment::empty()).unwrap();
    let shown = effective(&config);
    assert!(shown.contains("password = \"***\"") && !shown.contains("hunter2"), "{shown}");
    assert!(faults(&shown).to_string().contains("`***` is a redacted secret"));

    let again = loaded(&shown.replace("***", "hunter2"), &Environment::empty()).unwrap();
    assert_eq!(again, config);
}

#[test]
fn the_sample_file_equals_the_defaults() {
    check_sample::<Config>(include_str!("../../../../config/delayq.toml")).unwrap();
}

#[test]
fn every_program_knows_every_section_of_the_sample() {
    let sample = include_str!("../../../../config/delayq.toml");
    for header in sample.lines().filter(|line| line.starts_with('[')) {
        let section = header.trim_matches(['[', ']']).split('.').next().unwrap();
        assert!(SECTIONS.contains(&section), "a program that has no [{section}] would refuse it");
    }
}

#[test]
fn a_sample_that_drifts_is_found_out() {
    let sample = include_str!("../../../../config/delayq.toml");
    for (from, to, finding) in [
        ("shards = 1", "shards = 5", "differs"),
        ("shards = 1", "", "no `deployment.shards`"),
        ("#ca = ", "#caa = ", "unknown field `caa`"),
        ("#ca = \"/etc/delayq/redis-ca.pem\"", "#ca = 5", "invalid type"),
    ] {
        let refusal = check_sample::<Config>(&sample.replacen(from, to, 1)).unwrap_err();
        assert!(refusal.contains(finding), "{refusal}");
    }
}

#[test]
fn what_the_start_would_refuse_is_a_fault_of_the_configuration() {
    for (text, key) in [
        ("[deployment]\nnamespace = 'a.b'", "deployment.namespace"),
        ("[deployment]\nnamespace = ''", "deployment.namespace"),
        ("[deployment]\nshards = 0", "deployment.shards"),
        ("[redis]\nurl = 'redis://h:99999'", "redis.url"),
        ("[redis]\nurl = 'redis://h:1/database'", "redis.url"),
        ("[redis]\nurl = 'rediss://h:1'\nca = '/nonexistent.pem'", "redis.ca"),
    ] {
        let faults = faults(text);
        assert_eq!(lines(&faults).iter().map(|(_, key)| *key).collect::<Vec<_>>(), [key], "{text}: {faults}");
    }
}

#[test]
fn a_password_in_the_query_of_a_url_is_not_printed() {
    for url in [
        "redis+unix:///run/redis.sock?db=1&pass=hunter2",
        "unix:///run/redis.sock?user=u&pass=hunter2&db=1",
        "redis://h:1/0?password=hunter2&protocol=resp3",
        "redis://h:1/0?%70ass=hunter2",
    ] {
        let shown = match loaded(&format!("[redis]\nurl = '{url}'"), &Environment::empty()) {
            Ok(config) => format!("{} {config:?}", effective(&config)),
            Err(faults) => format!("{faults} {faults:?}"),
        };
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    let both = "[redis]\nurl = 'unix:///run/redis.sock?pass=hunter2'\npassword = 'hunter3'";
    assert_eq!(lines(&faults(both)), [(3, "redis.password")]);
}

#[test]
fn sentinels_are_named_once_whole_and_with_a_login_of_their_own() {
    let place = |text: &str| loaded(text, &Environment::empty()).unwrap().redis.place().to_string();
    let nodes = "[redis.sentinel]\nnodes = ['s1:1', '[::1]:2']\nservice = 'm'\n";
    assert_eq!(place(nodes), "redis+sentinel://s1:1,[::1]:2/m");
    assert_eq!(place(&format!("{nodes}tls = true\n")), "rediss+sentinel://s1:1,[::1]:2/m");
    let url = "[redis]\nurl = 'redis+sentinel://u:hunter2@s1:1/m'\n";
    assert_eq!(
        place(&format!("{url}[redis.sentinel]\npassword = 'hunter3'\n")),
        "redis+sentinel://u:***@s1:1/m"
    );
    for (text, key, named) in [
        (format!("[redis]\nurl = 'redis://h:1'\n{nodes}"), "redis.sentinel.nodes", "keep only one"),
        (format!("{url}{nodes}"), "redis.sentinel.nodes", "keep only one"),
        (
            "[redis.sentinel]\nusername = 'u'\npassword = 'p'\n".to_owned(),
            "redis.sentinel",
            "begins with redis+sentinel://",
        ),
        ("[redis.sentinel]\nnodes = ['s1:1']\n".to_owned(), "redis.sentinel.nodes", "belong together"),
        (
            "[redis.sentinel]\nnodes = ['s1']\nservice = 'm'\n".to_owned(),
            "redis.sentinel.nodes",
            "is not an address",
        ),
        (nodes.replace("'m'", "'m/1'"), "redis.sentinel.nodes", "cannot be the name of a service"),
        (nodes.replace("[::1]:2", "s1:1"), "redis.sentinel.nodes", "twice"),
        (format!("{nodes}username = 'u'\n"), "redis.sentinel.username", "needs a `password`"),
        (format!("{nodes}ca = '/ca.pem'\n"), "redis.sentinel.ca", "set `tls` to true"),
    ] {
        let faults = faults(&text);
        let is_named = |fault: &delayq_service::config::ConfigFault| {
            fault.key.starts_with(key) && fault.message.contains(named)
        };
        assert!(faults.faults().iter().any(is_named), "{text}: {faults}");
        assert!(!faults.to_string().contains("hunter"), "{faults}");
    }
}

#[test]
fn nodes_are_named_once_and_have_each_shard_once() {
    let node = |name: &str, url: &str, shards: &str| {
        format!("[[redis.nodes]]\nname = '{name}'\nurl = '{url}'\nshards = '{shards}'\n")
    };
    let a = node("a", "redis://a:1", "0-3");
    let by_sentinel = node("b", "redis+sentinel://s1:1,s2:1/m", "4-5,8-9") + &node("c", "redis://c:1", "6-7");
    let nodes = loaded(&format!("{a}{by_sentinel}"), &Environment::empty()).unwrap().redis.nodes;
    assert_eq!(nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    for (text, named) in [
        (node("b", "redis://b:1", "5-7"), "shard 4 has no node"),
        (node("b", "redis://b:1", "3-7"), "shard 3 has two nodes: a and b"),
        (node("a", "redis://b:1", "4-7"), "two nodes have the name a"),
        (node("b", "redis://:hunter2@a:1", "4-7"), "a and b have the same URL"),
        (node("b", "redis+cluster://b:1", "4-7"), "node b is a Redis Cluster"),
        (node("b c", "redis://b:1", "4-7"), "only ASCII letters"),
        (node("b", "redis://b:1", "7-4"), "7-4"),
        (node("b", "redis://:hunter2@b:1", "4-7") + "[redis]\npassword = 'hunter3'\n", "keep only one"),
        (node("b", "redis://b:1", "4-7") + "[redis]\nurl = 'redis://h:1'\n", "keep only one"),
    ] {
        let faults = faults(&format!("{a}{text}"));
        let is_named = |fault: &delayq_service::config::ConfigFault| {
            fault.key.starts_with("redis.") && fault.message.contains(named)
        };
        assert!(faults.faults().iter().any(is_named), "{text}: {faults}");
        assert!(!faults.to_string().contains("hunter"), "{faults}");
    }
}
