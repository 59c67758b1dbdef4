//! The conformance suite that clients in all languages share (`tests/vectors/README.md`), run by this client.

mod run;
mod said;
mod shown;
mod steps;

use delayq_tests::redis_server::RedisServer;
use run::Run;
use said::list;
use serde_json::Value;

#[tokio::test]
async fn every_step_of_the_suite_gets_the_answer_that_all_clients_get() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/conformance.json");
    let suite: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    // A step may make the server forget every script.
    let server = RedisServer::private().await;
    for (number, scenario) in list(&suite["scenarios"]).iter().enumerate() {
        let mut run = Run::new(&server, number, scenario);
        if scenario.get("init") != Some(&Value::Bool(false)) {
            let created: Value = scenario["shards"].as_u64().unwrap_or(1).into();
            for shard in 0..created.as_u64().unwrap() {
                run.call("init", shard, 1, &[shard.to_string().into(), created.to_string().into()]).await;
            }
        }
        for (i, step) in list(&scenario["steps"]).iter().enumerate() {
            let place = format!("{}: step {} ({})", scenario["name"], i + 1, step["op"]);
            run.carry_out(step, &place).await;
        }
    }
}
