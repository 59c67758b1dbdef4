//! The gateway of `delayq up`.

use super::Up;
use delayq_tests::admin_endpoint::AdminEndpoint;

#[tokio::test]
async fn the_url_that_is_printed_answers_and_what_is_put_there_is_in_the_deployment() {
    let up = Up::start(&[]).await;
    let printed: Vec<String> = up.process.lines().into_iter().map(|line| line.text).collect();
    let of_gateway =
        |line: &String| line.trim_end().split_once("http://")?.1.strip_suffix("/v1").map(str::to_owned);
    let url = printed.iter().find_map(of_gateway);
    let url = url.unwrap_or_else(|| panic!("no URL in {printed:?}"));
    up.done(&["put", "orders", "{}", "--id", "order-17", "--in", "1h"]).await;
    let (status, body) = AdminEndpoint::at(url).get("/v1/topics/orders/messages/order-17").await;
    assert!(status == 200 && body.contains(r#""state":"delayed""#), "{status}: {body}");
    up.stop().await;
}
