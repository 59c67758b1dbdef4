//! The scripts of a growth, called like any client.

use delayq::protocol::{Scripts, Verb};
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use redis::Value;

/// Uses namespace `s`; returns the words of the answer, or the first word of the error.
async fn call(server: &SharedRedis, verb: Verb, shard: u16, args: &[&str]) -> Result<Vec<String>, String> {
    let base = format!("{{s:{shard}}}:");
    let mut command = redis::cmd("EVAL");
    command.arg(&Scripts::published().get(verb).source).arg(2);
    command.arg(format!("{base}meta")).arg(format!("{base}never")).arg(args);
    match command.query_async::<Value>(&mut server.connect_to(&base).await).await {
        Ok(Value::Array(items)) => {
            Ok(items.iter().map(|item| redis::from_redis_value(item.clone()).unwrap()).collect())
        }
        Ok(one) => Ok(vec![redis::from_redis_value(one).unwrap()]),
        Err(error) => Err(error.code().unwrap_or_default().to_owned()),
    }
}

fn answer(words: &str) -> Result<Vec<String>, String> {
    Ok(vec![words.to_owned()])
}

fn refused(code: &str) -> Result<Vec<String>, String> {
    Err(code.to_owned())
}

#[tokio::test]
async fn a_shard_is_added_or_raised_once_and_by_its_own_growth_alone() {
    let server = RedisServer::start().await;
    let grow = async |shard, args: &[&str]| call(&server, Verb::Grow, shard, args).await;
    for shard in ["0", "1"] {
        let number = shard.parse().unwrap();
        assert_eq!(call(&server, Verb::Init, number, &["1", shard, "2"]).await, answer("created"));
    }
    assert_eq!(grow(2, &["2", "2", "2,4"]).await, answer("created"));
    assert_eq!(grow(2, &["2", "2", "2,4"]).await, answer("exists"));
    assert_eq!(grow(0, &["2", "0", "2,4"]).await, answer("raised"));
    assert_eq!(grow(0, &["2", "0", "2,4"]).await, answer("exists"));
    assert_eq!(grow(0, &["2", "0", "2,3"]).await, answer("differs 2 0 2,4"));
    assert_eq!(grow(0, &["2", "1", "2,4"]).await, answer("differs 2 0 2,4"));
    assert_eq!(grow(1, &["3", "1", "2,4,9"]).await, answer("raised"));
    assert_eq!(grow(1, &["2", "1", "2,4"]).await, answer("ahead 3 2,4,9"));
    assert_eq!(call(&server, Verb::Init, 1, &["2", "1", "2,4"]).await, answer("differs 3 1 2,4,9"));
    assert_eq!(call(&server, Verb::Init, 1, &["3", "1", "2,4,9"]).await, answer("exists"));
}

#[tokio::test]
async fn a_growth_that_cannot_be_writes_nothing() {
    let server = RedisServer::start().await;
    for (shard, args, code) in [
        // The shard existed before the growth, so the shard is lost.
        (1, ["2", "1", "2,4"], "DQUNINITIALISED"),
        (4, ["2", "4", "2,4"], "DQARG"),
        (2, ["2", "x", "2,4"], "DQARG"),
        (2, ["3", "2", "2,4"], "DQARG"),
        (2, ["1", "2", "4"], "DQARG"),
        (2, ["2", "2", "4,2"], "DQARG"),
        (2, ["2", "2", "2,2"], "DQARG"),
        (2, ["2", "2", "2,4097"], "DQARG"),
        (2, ["2", "2", "2,x"], "DQARG"),
        (2, ["2", "2", "2,4.5"], "DQARG"),
        (2, ["2", "2", ""], "DQARG"),
    ] {
        assert_eq!(call(&server, Verb::Grow, shard, &args).await, refused(code), "{args:?}");
    }
    assert_eq!(server.command::<u64>(&["DBSIZE"]).await, 0);
}

#[tokio::test]
async fn a_shard_from_before_there_were_growths_is_raised_as_well() {
    let server = RedisServer::start().await;
    let old =
        ["HSET", "{s:0}:meta", "layout", "1", "format", "1", "shard", "0", "shards", "2", "topics", "0"];
    server.command::<u64>(&old).await;
    let knows = |counts: &str, layout: &str| Ok([layout, "0", counts, "0", ""].map(str::to_owned).to_vec());
    assert_eq!(call(&server, Verb::Layout, 0, &["0"]).await, knows("2", "1"));
    assert_eq!(call(&server, Verb::Init, 0, &["1", "0", "2"]).await, answer("exists"));
    assert_eq!(call(&server, Verb::Grow, 0, &["2", "0", "2,4"]).await, answer("raised"));
    assert_eq!(call(&server, Verb::Layout, 0, &["0"]).await, knows("2,4", "2"));
    assert_eq!(call(&server, Verb::Layout, 1, &["0"]).await, Ok(Vec::new()), "it is not there");
}

#[tokio::test]
async fn an_earlier_place_answers_as_a_put_would_but_stores_nothing() {
    let server = RedisServer::start().await;
    assert_eq!(call(&server, Verb::Init, 0, &["1", "0", "1"]).await, answer("created"));
    // A content hash of eight zeros or ones after a header that announces a hash.
    let envelope = |hash: &str| format!("\u{1}\0\0\u{1}{}{}", "\0".repeat(28), hash.repeat(8));
    let put = async |id: &str, options: &str, hash: &str| {
        let args = ["1", "t", id, "4000000000000", options, &envelope(hash)];
        call(&server, Verb::Put, 0, &args).await.unwrap()[1].clone()
    };
    assert_eq!(put("a", "earlier", "0").await, "moved");
    assert_eq!(put("a", "earlier replace tried=1", "0").await, "moved");
    assert_eq!(server.command::<u64>(&["EXISTS", "{s:0}:m:1:a"]).await, 0);
    assert_eq!(put("a", "", "0").await, "stored");
    assert_eq!(put("a", "earlier", "0").await, "exists delayed 4000000000000");
    assert_eq!(put("a", "earlier", "1").await, "conflict delayed 4000000000000");
    assert_eq!(put("a", "earlier replace", "1").await, "stored");
    assert_eq!(put("a", "earlier", "1").await, "exists delayed 4000000000000");
    let cancelled = call(&server, Verb::Cancel, 0, &["1", "t", "a"]).await;
    assert_eq!(cancelled, answer("cancelled"));
    assert!(put("a", "earlier", "1").await.starts_with("exists cancelled "));
    let stats: Vec<String> = server.command(&["HMGET", "{s:0}:stats", "accepted:1", "replaced:1"]).await;
    assert_eq!(stats, ["2", "1"]);
}
