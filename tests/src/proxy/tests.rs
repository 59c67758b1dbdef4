//! The proxy in front of a real Redis.

use super::{AfterLoss, Direction, Flow, Proxy};
use crate::deadline::{SHORT, within};
use crate::redis_server::RedisServer;
use redis::aio::MultiplexedConnection;
use std::time::Duration;
use tokio::time::Instant;

/// Long compared with a loopback round trip, short compared with a person's patience.
const SOON: Duration = Duration::from_millis(200);

struct Scene {
    server: RedisServer,
    proxy: Proxy,
}

async fn scene() -> Scene {
    let server = RedisServer::private().await;
    let proxy = Proxy::start_for_redis(&server.address());
    Scene { server, proxy }
}

// === impl Scene ===

impl Scene {
    async fn connect(&self) -> redis::RedisResult<MultiplexedConnection> {
        let client = redis::Client::open(self.server.url_through(&self.proxy.address()))?;
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(SHORT));
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    async fn count(&self) -> u64 {
        self.server.command::<Option<u64>>(&["GET", "n"]).await.unwrap_or(0)
    }
}

async fn increment(connection: &mut MultiplexedConnection) -> redis::RedisResult<u64> {
    redis::cmd("INCR").arg("n").query_async(connection).await
}

#[tokio::test]
async fn what_passes_arrives() {
    let scene = scene().await;
    let mut connection = scene.connect().await.unwrap();
    let long = "x".repeat(3_000_000);
    let () = redis::cmd("SET").arg("k").arg(&long).query_async(&mut connection).await.unwrap();
    let back: String = redis::cmd("GET").arg("k").query_async(&mut connection).await.unwrap();
    assert_eq!(back.len(), long.len());
    assert_eq!(scene.proxy.taken(), 1);
}

#[tokio::test]
async fn a_delay_of_each_direction_makes_a_round_trip_twice_as_late() {
    let scene = scene().await;
    let mut connection = scene.connect().await.unwrap();
    scene.proxy.set_both(Flow::Delay(Duration::from_millis(30)));
    let began = Instant::now();
    increment(&mut connection).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(60));
}

#[tokio::test]
async fn a_held_request_reaches_the_server_only_when_the_flow_passes_again() {
    let scene = scene().await;
    let mut connection = scene.connect().await.unwrap();
    scene.proxy.set(Direction::Requests, Flow::Hold);
    let mut held = tokio::spawn(async move { increment(&mut connection).await });
    assert!(tokio::time::timeout(SOON, &mut held).await.is_err());
    assert_eq!(scene.count().await, 0);
    scene.proxy.mend().await;
    assert_eq!(within("the held request", SHORT, held).await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn a_held_reply_belongs_to_a_request_that_was_carried_out() {
    let scene = scene().await;
    let mut connection = scene.connect().await.unwrap();
    scene.proxy.set(Direction::Replies, Flow::Hold);
    let answer = tokio::time::timeout(SOON, increment(&mut connection)).await;
    assert!(answer.is_err());
    assert_eq!(scene.count().await, 1);
}

#[tokio::test]
async fn a_stranded_connection_stays_silent_while_a_new_one_works() {
    let scene = scene().await;
    let mut old = scene.connect().await.unwrap();
    scene.proxy.strand_open();
    let mut new = scene.connect().await.unwrap();
    assert_eq!(increment(&mut new).await.unwrap(), 1);
    assert!(tokio::time::timeout(SOON, increment(&mut old)).await.is_err());
}

#[tokio::test]
async fn a_lost_reply_is_of_a_request_that_was_carried_out() {
    for then in [AfterLoss::Reset, AfterLoss::Silence] {
        let scene = scene().await;
        let mut connection = scene.connect().await.unwrap();
        scene.proxy.lose_reply(2, then);
        assert_eq!(increment(&mut connection).await.unwrap(), 1);
        assert_eq!(increment(&mut connection).await.unwrap(), 2);
        let answer = tokio::time::timeout(SOON, increment(&mut connection)).await;
        match then {
            AfterLoss::Reset => assert!(answer.unwrap().is_err()),
            AfterLoss::Silence => assert!(answer.is_err()),
        }
        within("the loss", SHORT, scene.proxy.wait_losses(1)).await;
        assert_eq!(scene.count().await, 3, "{then:?}");
    }
}

#[tokio::test]
async fn a_request_cut_in_the_middle_is_not_carried_out() {
    let scene = scene().await;
    let mut connection = scene.connect().await.unwrap();
    scene.proxy.cut_after(Direction::Requests, 10);
    assert!(within("the answer to a cut request", SHORT, increment(&mut connection)).await.is_err());
    assert_eq!(scene.proxy.losses(), 1);
    assert_eq!(scene.count().await, 0);
}

#[tokio::test]
async fn a_refusing_proxy_takes_no_connection_until_it_accepts_again() {
    let scene = scene().await;
    let mut old = scene.connect().await.unwrap();
    scene.proxy.refuse().await;
    assert!(within("the answer on a reset connection", SHORT, increment(&mut old)).await.is_err());
    let refused = scene.connect().await.unwrap_err();
    assert!(refused.is_connection_refusal(), "{refused}");
    scene.proxy.accept().await;
    assert_eq!(increment(&mut scene.connect().await.unwrap()).await.unwrap(), 1);
}

#[tokio::test]
async fn a_dropped_proxy_ends_its_connections() {
    let scene = scene().await;
    let mut connection = scene.connect().await.unwrap();
    let Scene { server: _server, proxy } = scene;
    drop(proxy);
    assert!(within("the answer of a proxy that is gone", SHORT, increment(&mut connection)).await.is_err());
}
