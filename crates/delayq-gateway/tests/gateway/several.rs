//! A gateway of a deployment on several Redises.

use super::stage::{Running, topic};
use delayq::protocol::NodeName;
use delayq::{Admin, Group, Message, Producer, ShardCount, Topic};
use delayq_tests::deadline::{SHORT, wait_until, within};
use delayq_tests::deployment::created;
use delayq_tests::folder::Folder;
use delayq_tests::redis_nodes::RedisNodes;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};

/// Messages whose answer exceeds the buffers of both sockets.
const MANY: u64 = 40;

struct Unread {
    stream: TcpStream,
    topic: Topic,
}

impl Unread {
    /// Puts messages into shards of this node, and reserves all together. A slow Redis may cut a reserve
    /// short: then the next topic is tried.
    async fn of(
        gateway: &Running,
        nodes: &RedisNodes,
        node: usize,
        admin: &Admin,
        producer: &Producer,
    ) -> Self {
        let group = group_in(&nodes.shards_of(node), nodes.shards());
        for attempt in 0..10 {
            let topic = topic(&format!("node{node}-{attempt}"));
            let message = || Message::new(topic.clone(), "x".repeat(250_000)).with_group(group.clone());
            for put in producer.put_many((0..MANY).map(|_| message()).collect()).await {
                assert!(put.unwrap().outcome.is_accepted());
            }
            let stream = reserving(gateway, &topic).await;
            // The answer has begun, so all of its messages are leased. A close with unread bytes resets the socket.
            within("the answer", SHORT, stream.peek(&mut [0])).await.unwrap();
            if admin.topic(&topic).count().await.unwrap().leased == MANY {
                return Self { stream, topic };
            }
        }
        panic!("no reserve took all messages");
    }
}

async fn reserving(gateway: &Running, topic: &Topic) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(gateway.address.parse().unwrap()).await.unwrap();
    let body = json!({ "topics": [topic], "max": MANY, "max_bytes": 16_000_000, "lease": "10m" });
    stream.write_all(&gateway.bytes("POST /v1/reserve", &body.to_string())).await.unwrap();
    stream
}

async fn given_back(gateway: &Running) -> u64 {
    let (_, metrics) = gateway.endpoint.get("/metrics").await;
    let line = metrics.lines().find_map(|line| line.strip_prefix("delayq_gateway_given_back_total "));
    line.unwrap().parse().unwrap()
}

fn group_in(shards: &std::ops::Range<u16>, count: u16) -> Group {
    let count = ShardCount::new(count).unwrap();
    let names = (0..).map(|n| Group::new(format!("g{n}")).unwrap());
    let mut there = names.filter(|group| shards.contains(&count.shard_of_name(group.as_str()).get()));
    there.next().unwrap()
}

#[tokio::test]
async fn a_redis_that_is_away_keeps_no_message_of_another_from_going_back() {
    let nodes = RedisNodes::start(1).await;
    let (_client, admin, producer) = created(nodes.settings()).await;
    let folder = Folder::new("several");
    let sections = format!("[deployment]\nshards = {}\n{}", nodes.shards(), nodes.section());
    let gateway = Running::start(&folder, &sections, "").await;
    let away = Unread::of(&gateway, &nodes, 0, &admin, &producer).await;
    let here = Unread::of(&gateway, &nodes, 1, &admin, &producer).await;
    // Messages beyond the bytes of a reserve went back already.
    let before = given_back(&gateway).await;
    nodes.servers[0].freeze();
    drop(away.stream);
    wait_until("the first loss", SHORT, async || given_back(&gateway).await >= before + MANY).await;
    drop(here.stream);
    let others = admin.without([NodeName::new("a").unwrap()]).unwrap();
    let is_back = async || others.topic(&here.topic).count().await.unwrap().ready == MANY;
    wait_until("the messages of the other Redis", SHORT, is_back).await;
    nodes.servers[0].thaw();
}
