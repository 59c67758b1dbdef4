//! `delayq top`: one frame for scripts, and the live screen on a terminal of 80 columns.

use super::printed::assert_is_documented;
use super::{delayq, deployment, done, run};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::folder::Folder;
use delayq_tests::ports::free_port;
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use tokio::task::spawn_blocking;

/// Returns the other end of the terminal, the settings, and the program.
fn on_terminal(mut program: Command, size: Winsize) -> (File, String, Child) {
    // A program with a copy of the other end would keep the terminal open.
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    tcsetwinsize(&slave, size).unwrap();
    program.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
    let keys = File::from(master);
    let before = modes(&keys);
    (keys, before, program.spawn().unwrap())
}

pub(crate) struct OnTerminal {
    child: Child,
    keys: File,
    before: String,
    shown: Arc<Mutex<String>>,
}

// === impl OnTerminal ===

impl OnTerminal {
    fn start(program: Command) -> Self {
        Self::start_with(program, 80, 24)
    }

    pub(crate) fn start_with(program: Command, ws_col: u16, ws_row: u16) -> Self {
        let (keys, before, child) =
            on_terminal(program, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 });
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut screen, noted) = (keys.try_clone().unwrap(), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The read fails when the program ends.
            while let Ok(count) = screen.read(&mut bytes) {
                noted.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { child, keys, before, shown }
    }

    /// Waits until the terminal shows `words`; the next call looks at later output alone.
    async fn shows(&self, words: &str) {
        wait_until(words, LONG, async || self.shown.lock().unwrap().contains(words)).await;
        self.shown.lock().unwrap().clear();
    }

    /// Without colours.
    pub(crate) async fn all(mut self) -> String {
        spawn_blocking(move || self.child.wait()).await.unwrap().unwrap();
        // The last bytes arrive after the program's end, and end with a newline.
        wait_until("the last line", LONG, async || self.shown.lock().unwrap().ends_with('\n')).await;
        let shown = self.shown.lock().unwrap();
        let colours = shown.split('\u{1b}').enumerate().map(|(i, part)| match i {
            0 => part,
            _ => part.split_once('m').map_or("", |(_, behind)| behind),
        });
        colours.collect::<String>().replace('\r', "")
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }
}

fn modes(terminal: &File) -> String {
    let set = tcgetattr(terminal).unwrap();
    format!("{:?} {:?} {:?}", set.input_modes, set.output_modes, set.local_modes)
}

fn live(redis: &SharedRedis) -> Command {
    let mut delayq = Command::new(env!("CARGO_BIN_EXE_delayq"));
    delayq.args(["--redis", &redis.url(), "--shards", "4", "top", "--interval", "500ms"]);
    delayq.env("DELAYQ__ETCD__ENABLED", "false").env("DELAYQ__ADMIN__LISTEN", "").env("TERM", "xterm");
    delayq
}

#[tokio::test(flavor = "multi_thread")]
async fn the_screen_turns_pages_filters_and_pauses() {
    let redis = deployment().await;
    done(&redis, &["put", "orders", "{}", "--in", "1h"]).await;
    done(&redis, &["put", "reminders", "{}", "--in", "1h"]).await;
    let mut top = OnTerminal::start(live(&redis));
    top.shows("[shards]").await;
    top.shows("nobody yet").await;
    top.press("2");
    top.shows("reminders").await;
    top.press("/ord\r");
    top.shows("1 row, with \"ord\"").await;
    top.press("p");
    top.shows("PAUSED").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_of_unknown_size_gets_a_screen_of_80_by_24() {
    let redis = deployment().await;
    let top = OnTerminal::start_with(live(&redis), 0, 0);
    top.shows("[shards]").await;
    top.shows("nobody yet").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_screen_ends_with_its_terminal() {
    let redis = deployment().await;
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    for key in ["2", "p"] {
        let (mut screen, _, mut top) = on_terminal(live(&redis), size);
        let ended = spawn_blocking(move || {
            screen.write_all(key.as_bytes()).unwrap();
            let (mut shown, mut bytes) = (String::new(), [0; 4096]);
            while !shown.contains("[topics]") && !shown.contains("PAUSED") {
                let count = screen.read(&mut bytes).unwrap();
                shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
            drop(screen);
            top.wait().unwrap()
        });
        assert_eq!(within("the end", LONG, ended).await.unwrap().code(), Some(0), "after {key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn however_the_screen_ends_the_terminal_is_as_it_was() {
    let redis = deployment().await;
    for end in [None, Some(Signal::TERM), Some(Signal::INT), Some(Signal::HUP), Some(Signal::QUIT)] {
        let mut top = OnTerminal::start(live(&redis));
        top.shows("[shards]").await;
        assert_ne!(modes(&top.keys), top.before, "it reads keys");
        match end {
            None => top.press("q"),
            Some(signal) => kill_process(Pid::from_child(&top.child), signal).unwrap(),
        }
        top.shows("\u{1b}[?1049l").await;
        let mut child = top.child;
        let ended = spawn_blocking(move || child.wait().unwrap()).await.unwrap();
        assert_eq!((ended.code(), modes(&top.keys)), (Some(0), top.before), "{end:?}");
    }
}

#[tokio::test]
async fn one_frame_has_every_page_as_text_and_as_json_and_without_a_terminal_nothing_else() {
    let redis = RedisServer::private().await;
    let (folder, port) = (Folder::new("top"), free_port());
    done(&redis, &["init"]).await;
    let file = folder.join("timer.toml");
    let url = redis.url();
    let text = format!(
        "[deployment]\nshards = 4\n[redis]\nurl = '{url}'\n[etcd]\nenabled = false\n[admin]\nlisten = '127.0.0.1:{port}'\n[timer]\nname = 'alone'\n"
    );
    std::fs::write(&file, text).unwrap();
    let _timer = Binary::new("delayq-timer").arg(file).start();
    done(&redis, &["put", "orders", "{}", "--in", "1h"]).await;
    let (admin, away) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", free_port()));
    let args = ["top", "--once", "--interval", "500ms", "--admin", &admin, "--admin", &away];
    wait_until("the timer to own every shard", LONG, async || {
        done(&redis, &args).await.matches(" alone-").count() == 4
    })
    .await;
    let json = done(&redis, &[&args[..], &["--json"]].concat()).await;
    let frame: Value = serde_json::from_str(&json).unwrap();
    assert_is_documented(&frame, &args);
    assert_eq!(frame["topics"][0]["topic"], "orders");
    assert_eq!(
        (&frame["topics"][0]["delayed"], frame["topics"][0]["accepted_per_s"].as_f64()),
        (&1.into(), Some(0.0))
    );
    let states = |name: &str| {
        let of = frame["processes"].as_array().unwrap().iter().find(|process| process["name"] == name);
        of.unwrap()["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(states(&admin), "ready");
    assert!(states(&away).starts_with("SILENT: "), "{frame}");
    let text = done(&redis, &args).await;
    for words in ["# shards", "# topics\nTOPIC", "# processes", "# destinations"] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    for (args, words) in
        [(&["top"][..], "--once"), (&["top", "--once", "--interval", "1ms"], "at least 500ms")]
    {
        let refused = run(&redis, args).await;
        assert!(refused.code == Some(64) && refused.stderr.contains(words), "{refused:?}");
    }
}

#[tokio::test]
async fn timers_that_all_listen_on_every_address_are_all_shown() {
    let (redis, etcd) = (deployment().await, EtcdCluster::start_one().await);
    let with_etcd = |binary: Binary| {
        let endpoints = format!("[\"{}\"]", etcd.endpoints()[0]);
        binary.env("DELAYQ__ETCD__ENABLED", "true").env("DELAYQ__ETCD__ENDPOINTS", endpoints)
    };
    let timer = |name: &str| {
        let timer = Binary::new("delayq-timer").env("DELAYQ__REDIS__URL", redis.url());
        let timer = timer.env("DELAYQ__DEPLOYMENT__SHARDS", "4").env("DELAYQ__TIMER__NAME", name);
        let timer =
            timer.env("DELAYQ__ADMIN__LISTEN", "0.0.0.0:0").env("DELAYQ__ADMIN__ADVERTISE", "127.0.0.1");
        with_etcd(timer).start()
    };
    let _timers = ["a", "b"].map(timer);
    wait_until("both timers to be ready", LONG, async || {
        let top = delayq(&redis).args(["top", "--once", "--interval", "500ms", "--json"]);
        let finished = with_etcd(top.env("DELAYQ__ADMIN__LISTEN", "")).run(b"", LONG).await;
        let frame: Value = serde_json::from_str(&finished.stdout).unwrap_or_default();
        let processes = frame["processes"].as_array().into_iter().flatten();
        let shown: Vec<_> = processes.map(|process| (&process["name"], &process["state"])).collect();
        shown == [(&"timer-a".into(), &"ready".into()), (&"timer-b".into(), &"ready".into())]
    })
    .await;
}
