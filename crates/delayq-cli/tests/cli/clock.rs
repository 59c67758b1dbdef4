//! Redis's clock counts, not the clock of the producer's host.

use super::{delayq, deployment, done};
use delayq_tests::clock_shim::ClockShim;
use delayq_tests::deadline::SHORT;
use serde_json::Value;

const HOUR_MS: u64 = 3_600_000;

#[tokio::test]
async fn a_delay_put_by_a_host_whose_clock_is_two_days_off_counts_from_redis_s_clock() {
    let redis = deployment().await;
    let clock = ClockShim::new();
    for days in [2, -2] {
        clock.set_offset_ms(days * 24 * HOUR_MS as i64);
        let id = format!("order-{days}");
        let put = clock
            .environment()
            .into_iter()
            .fold(delayq(&redis), |binary, (name, value)| binary.env(name, value));
        let before = redis.now_ms().await;
        let put = put.args(["put", "orders", "{}", "--id", &id, "--in", "1h"]).run(b"", SHORT).await;
        let after = redis.now_ms().await;
        assert_eq!(put.code, Some(0), "{put:?}");
        let listed: Value =
            serde_json::from_str(&done(&redis, &["get", "orders", &id, "--json"]).await).unwrap();
        let due = listed["due_ms"].as_u64().unwrap();
        assert!((before + HOUR_MS..=after + HOUR_MS).contains(&due), "{listed}");
    }
}
