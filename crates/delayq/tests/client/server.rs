//! Servers that delayq refuses, and the least permissions.

use delayq::admin::Role;
use delayq::protocol::{Holder, Notification, ShardId};
use delayq::{
    Admin, Client, Consumer, ConsumerOptions, Error, Fate, Message, Namespace, Password, Producer,
    ProducerOptions, PutOutcome, Settings, Settled, ShardCount, Topic,
};
use delayq_tests::deadline::{LONG, SHORT, wait_until, within};
use delayq_tests::proxy::Proxy;
use delayq_tests::redis_server::{RedisOptions, RedisServer, SharedRedis, old_and_new};
use std::time::Duration;
use tokio::time::timeout;

/// Permissions to make a connection; ROLE where sentinels name the master.
const OF_A_CONNECTION: [&str; 5] = ["+hello", "+auth", "+role", "+cluster|info", "+cluster|slots"];

fn allowed(role: Role) -> Vec<String> {
    role.commands().into_iter().map(|command| format!("+{command}")).collect()
}

fn documented_commands() -> Vec<String> {
    allowed(Role::Admin)
}

#[test]
fn the_documented_rules_are_those_of_the_roles() {
    let text = include_str!("../../../../docs/operations/access.md");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = words(text);
    for role in Role::ALL {
        let rule = words(&role.rule(&format!("delayq-{role}"), &Namespace::default()));
        assert!(text.contains(&format!("{rule} ")), "docs/operations/access.md has not:\n{rule}");
    }
}

async fn set_user(server: &SharedRedis, commands: &[String]) -> Client {
    limit_user(server, commands).await;
    Client::new(of_user(server))
}

async fn set_user_of(server: &SharedRedis, role: Role, commands: &[String]) -> Client {
    limit_user(server, commands).await;
    Client::new(of_user(server).role(role))
}

async fn limit_user(server: &SharedRedis, commands: &[String]) {
    let mut words = vec!["ACL", "SETUSER", "delayq", "reset", "on", ">secret", "~{dq:*", "&{dq:*", "-@all"];
    words.extend(commands.iter().map(String::as_str));
    server.command::<()>(&words).await;
}

/// The short deadline must not turn a busy machine into a refusal.
fn of_user(server: &SharedRedis) -> Settings {
    let mut settings = Settings::new(server.url());
    settings.link.deadline = SHORT;
    settings.link.username = Some("delayq".to_owned());
    settings.link.password = Some("secret".into());
    settings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_permissions_are_enough() {
    let server = RedisServer::private().await;
    let client = set_user(&server, &documented_commands()).await;
    Admin::new(client.clone()).check_server().await.unwrap();
    Admin::new(client.clone()).init().await.unwrap();
    let topic = Topic::new("orders").unwrap();
    let producer = Producer::start(client.clone(), ProducerOptions::default());
    producer.put(Message::new(topic.clone(), "body").id("order-17").unwrap()).await.unwrap();
    let mut consumer = Consumer::start(client, ConsumerOptions::new([topic])).unwrap();
    let delivery = timeout(Duration::from_secs(20), consumer.next()).await.unwrap().unwrap();
    assert_eq!(delivery.ack().await.unwrap(), Settled::Delivered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_denies_a_command_of_the_role_is_refused_by_name() {
    for options in old_and_new() {
        refuses_what_denies_a_command(&RedisServer::private_with(options).await).await;
    }
}

async fn refuses_what_denies_a_command(server: &RedisServer) {
    for role in Role::ALL {
        let client = set_user_of(server, role, &allowed(role)).await;
        Admin::new(client).check_server().await.unwrap_or_else(|error| panic!("{role}: {error}"));
        // Commands of a connection are not checked.
        let all = allowed(role);
        assert!(all.len() > 20, "{role}: {all:?}");
        for denied in all.iter().filter(|denied| !OF_A_CONNECTION.contains(&denied.as_str())) {
            let commands: Vec<_> = all.iter().filter(|command| *command != denied).cloned().collect();
            let client = set_user_of(server, role, &commands).await;
            let error = Admin::new(client).check_server().await.expect_err(denied);
            let named = |why: &str| why.to_lowercase().contains(&denied[1..]);
            assert!(matches!(&error, Error::Unfit(why) if named(why)), "{role}, {denied}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_role_every_command_of_the_scripts_is_asked_for() {
    let server = RedisServer::private().await;
    for denied in allowed(Role::Timer).into_iter().chain(allowed(Role::Producer)) {
        // Only a role that sweeps walks over the keys.
        if OF_A_CONNECTION.contains(&denied.as_str()) || ["+scan", "+getrange"].contains(&denied.as_str()) {
            continue;
        }
        let commands: Vec<_> =
            documented_commands().into_iter().filter(|command| *command != denied).collect();
        let client = set_user(&server, &commands).await;
        let error = Admin::new(client.clone()).check_server().await.unwrap_err();
        let named = |why: &str| why.to_lowercase().contains(&denied[1..]);
        assert!(matches!(&error, Error::Unfit(why) if named(why)), "{denied}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_the_channels_of_the_namespace_is_refused() {
    let server = RedisServer::private().await;
    let client = set_user(&server, &documented_commands()).await;
    server.command::<()>(&["ACL", "SETUSER", "delayq", "resetchannels", "&elsewhere"]).await;
    let error = Admin::new(client.clone()).check_server().await.unwrap_err();
    assert!(matches!(&error, Error::Unfit(why) if why.contains("SSUBSCRIBE")), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_without_script_load_is_refused_and_is_no_outage() {
    let server = RedisServer::private().await;
    let commands: Vec<_> =
        documented_commands().into_iter().filter(|command| command != "+script|load").collect();
    Admin::new(Client::new(Settings::new(server.url()))).init().await.unwrap();
    let client = set_user(&server, &commands).await;
    server.command::<()>(&["SCRIPT", "FLUSH"]).await;
    let producer = Producer::start(client, ProducerOptions::default());
    let error = producer.put(Message::new(Topic::new("orders").unwrap(), "")).await.unwrap_err().error;
    assert!(matches!(&error, Error::Redis { code, .. } if code == "NOPERM"), "{error}");
    assert!(error.to_string().contains("script|load") && !error.is_outage(), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_evicts_is_refused() {
    let options = RedisOptions::default().set("maxmemory-policy", "allkeys-lru");
    let server = RedisServer::private_with(options).await;
    let error = Admin::new(Client::new(Settings::new(server.url()))).check_server().await.unwrap_err();
    assert!(error.to_string().contains("allkeys-lru"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_runs_when_eviction_is_switched_on_stores_and_the_next_one_is_refused() {
    let server = RedisServer::private().await;
    let settings = Settings::new(server.url());
    Admin::new(Client::new(settings.clone())).init().await.unwrap();
    let running = Client::connect(settings.clone()).await.unwrap();
    server.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    let producer = Producer::start(running, ProducerOptions::default());
    let message = Message::new(Topic::new("orders").unwrap(), "").after(Duration::from_secs(60));
    let put = producer.put(message).await.unwrap();
    assert!(matches!(put.outcome, PutOutcome::Stored(_)), "{put:?}");
    let error = Client::connect(settings).await.unwrap_err();
    assert!(matches!(error, Error::Unfit(_)) && error.to_string().contains("allkeys-lru"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_came_back_empty_is_not_served() {
    let server = RedisServer::private().await;
    let client = Client::new(Settings::new(server.url()));
    Admin::new(client.clone()).init().await.unwrap();
    server.command::<()>(&["FLUSHALL"]).await;
    let producer = Producer::start(client, ProducerOptions::default());
    let error = producer.put(Message::new(Topic::new("orders").unwrap(), "")).await.unwrap_err();
    assert!(matches!(error.error, Error::Uninitialised(_)), "{error}");
    assert_eq!(server.command::<Vec<String>>(&["KEYS", "*"]).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_with_another_number_of_shards_is_refused() {
    let server = RedisServer::private().await;
    let mut settings = Settings::new(server.url());
    Admin::new(Client::new(settings.clone())).init().await.unwrap();
    settings.shards = delayq::ShardCount::new(8).unwrap();
    let client = Client::new(settings);
    let init = Admin::new(client.clone()).init().await.unwrap_err();
    let mut errors = vec![init, Admin::new(client.clone()).check_server().await.unwrap_err()];
    // Of the eight shards that the producer places messages in, only some exist.
    let producer = Producer::start(client, ProducerOptions::default());
    for id in 0..16 {
        let message = Message::new(Topic::new("orders").unwrap(), "").id(format!("order-{id}")).unwrap();
        errors.push(producer.put(message).await.unwrap_err().error);
    }
    let named =
        format!("configured for 8 shards, but the deployment has {}", delayq::ShardCount::DEFAULT.get());
    for error in errors {
        assert!(error.to_string().contains(&named), "{error}");
    }
    assert_eq!(server.command::<Vec<String>>(&["KEYS", "*:t:*"]).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_is_in_no_debug_output() {
    let mut settings = Settings::new("redis://user:hunter2@127.0.0.1:1/0");
    settings.link.password = Some("hunter3".into());
    settings.link.connect_timeout = Duration::from_millis(200);
    let client = Client::new(settings.clone());
    let error = Admin::new(client.clone()).check_server().await.unwrap_err();
    for shown in [format!("{settings:?}"), format!("{client:?}"), format!("{error:?}"), error.to_string()] {
        assert!(!shown.contains("hunter"), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_password_file_does_not_need_a_restart() {
    let server = RedisServer::private().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    let rotate = async |password: &str| {
        let password_rule = format!(">{password}");
        let words = ["ACL", "SETUSER", "delayq", "reset", "on", &password_rule, "~*", "&*", "+@all"];
        server.command::<()>(&words).await;
        std::fs::write(&file, format!("{password}\n")).unwrap();
    };
    rotate("first").await;
    let mut settings = Settings::new(server.url());
    settings.link.username = Some("delayq".to_owned());
    settings.link.password = Some(Password::file(&file));
    let client = Client::new(settings);
    Admin::new(client.clone()).check_server().await.unwrap();
    // Redis ends the connections of a user on a reset.
    rotate("second").await;
    wait_until("the next connection logs in", LONG, async || {
        Admin::new(client.clone()).check_server().await.is_ok()
    })
    .await;
    std::fs::remove_file(&file).unwrap();
    server.command::<()>(&["CLIENT", "KILL", "USER", "delayq"]).await;
    let error = Admin::new(client.clone()).check_server().await.unwrap_err();
    assert!(!error.to_string().contains("second"), "{error}");
    rotate("third").await;
    wait_until("the file is there again", LONG, async || {
        Admin::new(client.clone()).check_server().await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_became_a_replica_is_left_and_the_one_behind_its_address_is_reached() {
    let (old, new) = (RedisServer::private().await, RedisServer::private().await);
    let address = Proxy::start(&old.address());
    let mut settings = Settings::new(old.url_through(&address.address()));
    settings.shards = ShardCount::new(1).unwrap();
    let client = Client::new(settings);
    Admin::new(client.clone()).init().await.unwrap();
    let topic = Topic::new("orders").unwrap();
    let producer = Producer::start(client.clone(), ProducerOptions::default());
    let put = async |id: &str| producer.put(Message::new(topic.clone(), "x").id(id).unwrap()).await;
    put("first").await.unwrap();
    let mut ready = Holder::new(client.clone()).listen(vec![ShardId::new(0)]);
    assert_eq!(within("the first subscription", LONG, ready.next()).await, Notification::Resync);

    let follow = async |from: &RedisServer, of: &RedisServer| {
        from.command::<()>(&["REPLICAOF", "127.0.0.1", &of.port().to_string()]).await;
        let has_it = async || from.command::<u64>(&["DBSIZE"]).await > 0;
        wait_until("the replica has what its master has", LONG, has_it).await;
    };
    follow(&new, &old).await;
    new.command::<()>(&["REPLICAOF", "NO", "ONE"]).await;
    follow(&old, &new).await;
    address.lead_to(&new.address());
    let recovered = async || match put("second").await {
        Ok(put) => put.outcome.is_accepted(),
        Err(refused) => {
            assert_eq!((refused.error.fate(), refused.error.is_outage()), (Fate::NotApplied, true));
            false
        }
    };
    wait_until("a put to reach the new master", LONG, recovered).await;
    assert_eq!(within("the listener's new connection", LONG, ready.next()).await, Notification::Resync);
    let queue: u64 = new.command(&["LLEN", "{dq:0}:r:1"]).await;
    assert_eq!(queue, 2);
}
