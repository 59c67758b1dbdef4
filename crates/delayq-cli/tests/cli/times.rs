//! Times on the command line, in the zone of the machine.

use super::{delayq, deployment, done};
use delayq_tests::deadline::SHORT;
use serde_json::Value;

#[tokio::test]
async fn a_local_date_and_time_is_not_stored_for_today() {
    let redis = deployment().await;
    let at = "2047-06-01T09:00:00";
    let berlin = |args: &[&str]| delayq(&redis).env("TZ", "Europe/Berlin").args(args);
    let line = br#"{"topic":"t","id":"c","due":"2047-06-01T09:00:00","expires":"2047-06-01T10:00:00"}"#;
    for (args, input) in [
        (&["put", "t", "{}", "--id", "a", "--at", at, "--expires", "2047-06-01T10:00:00"][..], &b""[..]),
        (&["put", "t", "{}", "--id", "b", "--in", "1h"], b""),
        (&["reschedule", "t", "b", "--to", at], b""),
        (&["put", "--from", "-"], line),
    ] {
        let finished = berlin(args).run(input, SHORT).await;
        assert_eq!(finished.code, Some(0), "{args:?}: {finished:?}");
    }
    for id in ["a", "b", "c"] {
        let stored: Value = serde_json::from_str(&done(&redis, &["get", "t", id, "--json"]).await).unwrap();
        assert_eq!(stored["due_at"], "2047-06-01T07:00:00.000Z", "{stored}");
        assert!(id == "b" || stored["expires_at"] == "2047-06-01T08:00:00.000Z", "{stored}");
    }
    let later = ["purge", "t", "--from", "2047-06-01T09:00:01", "--yes"];
    assert!(berlin(&later).run(b"", SHORT).await.stdout.starts_with("purged 0"), "nothing is due then");
    let listed = berlin(&["list", "t", "--from", at, "--until", at]).run(b"", SHORT).await;
    assert_eq!(listed.stdout.lines().count(), 4, "{listed:?}");
}

#[tokio::test]
async fn an_expiry_counted_from_the_due_time_moves_with_it_and_is_taken_along_by_a_backup() {
    let redis = deployment().await;
    done(&redis, &["put", "t", "{}", "--id", "a", "--in", "1h", "--expire-after", "10m"]).await;
    done(&redis, &["reschedule", "t", "a", "--in", "3h"]).await;
    let lifetime = async |redis: &_| {
        let stored: Value = serde_json::from_str(&done(redis, &["get", "t", "a", "--json"]).await).unwrap();
        stored["expires_ms"].as_u64().unwrap() - stored["due_ms"].as_u64().unwrap()
    };
    assert_eq!(lifetime(&redis).await, 600_000);
    let lines = done(&redis, &["backup", "-"]).await;
    let restored = deployment().await;
    let finished = delayq(&restored).args(["restore", "-"]).run(lines.as_bytes(), SHORT).await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    done(&restored, &["reschedule", "t", "a", "--in", "5h"]).await;
    assert_eq!(lifetime(&restored).await, 600_000);
    let both = ["put", "t", "{}", "--expires", "2047-06-01T10:00:00Z", "--expire-after", "10m"];
    let refused = delayq(&redis).args(both).run(b"", SHORT).await;
    assert!(refused.code == Some(64) && refused.stderr.contains("--expire-after"), "{refused:?}");
}

#[tokio::test]
async fn an_id_has_one_time_in_a_window_and_one_jitter_by_every_way_in() {
    let redis = deployment().await;
    let (midnight, window) = ("2047-06-01T00:00:00Z", "09:00-10:00 Europe/Berlin");
    let line = format!(r#"{{"topic":"u","id":"order-17","due":"{midnight}","between":"{window}"}}"#);
    let jitter = format!(r#"{{"topic":"v","id":"order-17","due":"{midnight}","jitter":"1h"}}"#);
    let put = |topic: &'static str, how: &[&str]| {
        let put = ["put", topic, "{}", "--id", "order-17", "--at", midnight];
        delayq(&redis).args([&put[..], how].concat())
    };
    for (command, input) in [
        (put("t", &["--between", window]), ""),
        (put("s", &["--jitter", "1h"]), ""),
        (delayq(&redis).args(["put", "--from", "-"]), line.as_str()),
        (delayq(&redis).args(["put", "--from", "-"]), jitter.as_str()),
    ] {
        let finished = command.run(input.as_bytes(), SHORT).await;
        assert_eq!(finished.code, Some(0), "{finished:?}");
    }
    for (topic, due) in [
        ("t", "2047-06-01T07:26:52.411Z"),
        ("u", "2047-06-01T07:26:52.411Z"),
        ("s", "2047-06-01T00:26:52.411Z"),
        ("v", "2047-06-01T00:26:52.411Z"),
    ] {
        let stored = done(&redis, &["get", topic, "order-17", "--json"]).await;
        assert_eq!(serde_json::from_str::<Value>(&stored).unwrap()["due_at"], due, "{topic}");
    }
    for (how, why) in [
        (&["--between", "09:00-10:00 Europe/Atlantis"][..], "unknown time zone \"Europe/Atlantis\""),
        (&["--between", "09:00-09:00 UTC"], "is empty"),
        (&["--between", "nine to ten"], "is not a window"),
        (&["--between", window, "--jitter", "1h"], "cannot be used with"),
        (&["--jitter", "long"], "long"),
    ] {
        let refused = put("t", how).run(b"", SHORT).await;
        assert!(refused.code == Some(64) && refused.stderr.contains(why), "{how:?}: {refused:?}");
    }
}

#[tokio::test]
async fn several_dates_are_a_series_that_its_id_cancels_and_shifts() {
    let redis = deployment().await;
    let put = |how: &[&str]| delayq(&redis).args([&["put", "letters", "{}"][..], how].concat());
    let dates = ["--id", "welcome-5", "--at", "2047-06-01T00:00:00Z", "--at", "2047-06-03T00:00:00Z"];
    let stored = put(&dates).run(b"", SHORT).await;
    assert!(stored.code == Some(0) && stored.stdout.lines().count() == 2, "{stored:?}");
    let again = put(&[&dates[..], &["--json"]].concat()).run(b"", SHORT).await;
    let outcomes: Vec<Value> = serde_json::from_str(&again.stdout).unwrap();
    let told = outcomes.iter().map(|told| (told["id"].as_str().unwrap(), told["outcome"].as_str().unwrap()));
    assert!(told.eq([("welcome-5/1", "exists"), ("welcome-5/2", "exists")]), "{again:?}");
    done(&redis, &["reschedule", "--group", "welcome-5", "--all", "--by", "1d", "--token", "later"]).await;
    for (id, due) in
        [("welcome-5/1", "2047-06-02T00:00:00.000Z"), ("welcome-5/2", "2047-06-04T00:00:00.000Z")]
    {
        let stored = done(&redis, &["get", "letters", id, "--group", "welcome-5", "--json"]).await;
        assert_eq!(serde_json::from_str::<Value>(&stored).unwrap()["due_at"], due, "{id}");
    }
    done(&redis, &["cancel", "--group", "welcome-5", "--all"]).await;
    let left = done(&redis, &["list", "--group", "welcome-5"]).await;
    assert!(!left.contains("welcome-5/"), "{left}");
    for (how, why) in [
        (&["--in", "1d", "--in", "2d"][..], "a series needs an id of your own"),
        (&["--in", "1d", "--in", "2d", "--id", "a", "--group", "g"], "a group of its own"),
        (&["--in", "1d", "--at", "2047-06-01T00:00:00Z", "--id", "a"], "cannot be used with"),
    ] {
        let refused = put(how).run(b"", SHORT).await;
        assert!(refused.code == Some(64) && refused.stderr.contains(why), "{how:?}: {refused:?}");
    }
}

#[tokio::test]
async fn a_zone_that_does_not_exist_is_not_taken_for_utc() {
    let redis = deployment().await;
    let nowhere = |at: &str| delayq(&redis).env("TZ", "Europe/Atlantis").args(["put", "t", "{}", "--at", at]);
    let refused = nowhere("tomorrow 09:00").run(b"", SHORT).await;
    assert!(
        refused.code == Some(64)
            && refused.stderr.contains("TZ=\"Europe/Atlantis\" in the environment is not a time zone"),
        "{refused:?}"
    );
    for at in ["tomorrow 09:00 Europe/Berlin", "2047-06-01T09:00:00Z", "+1h"] {
        let taken = nowhere(at).run(b"", SHORT).await;
        assert_eq!(taken.code, Some(0), "{at}: {taken:?}");
    }
}
