//! Clients in other languages survive outages: `client-outages NAME=COMMAND…`, from `scripts/test-clients.sh`.
//!
//! A single Redis, a master behind sentinels and a Redis Cluster go through outages, each on a thread of its own,
//! together with the clients' programs; no program is restarted. After each outage every program delivers again within
//! [`BOUND`]; at the end nothing is lost, no message is stuck, and in the long form no program has grown. With
//! `DELAYQ_TEST_OUTAGES` the run takes hours, as in `make test-outages`.
//!
//! A program is started as `COMMAND URL NAME PAUSE_MS`, and has three clients: the first puts to the topic NAME every
//! PAUSE_MS and works on that topic, the second puts to NAME-idle as its input says, and the third works on NAME-idle.
//! The last two do nothing else, so their connections are idle during an outage. A put is repeated until accepted, and
//! its id is its payload.
//!
//! | line of input | effect |
//! | --- | --- |
//! | an id | puts the id to NAME-idle |
//! | `stop` | ends the load, and prints `stopped` |
//! | the end | ends workers, clients, and program |
//!
//! | printed line | meaning |
//! | --- | --- |
//! | `put ID MS` | an id was accepted, at this time |
//! | `took ID DELIVERY READY_MS PAYLOAD` | a handler received the message |

use delayq::{Admin, Topic};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::{created, settings};
use delayq_tests::folder::Folder;
use delayq_tests::history::{Answer, Event, sha256_hex};
use delayq_tests::invariants::{Permit, check};
use delayq_tests::outages::{
    BOUND, ClusterScene, OneRedisScene, Plan, Scene, SentinelScene, Window, assert_copies_are_of_outages,
    history, now_ms,
};
use delayq_tests::process::{Process, assert_none_grew};
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{ChildStdin, Command};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::time::sleep;

/// Pause between two puts of the load; longer in the long form, which keeps all lines until its end.
const PAUSE_MS: u64 = 20;
const LONG_PAUSE_MS: u64 = 500;
/// Maximum growth of a program's open files from the middle of a run to its end.
const MORE_FILES: u64 = 16;

/// Wait for a message that a failover may have lost before the put is repeated: a former master accepts writes until it
/// learns of its successor, and a client writes there until it asks the sentinels again.
const AGAIN: Duration = Duration::from_millis(500);

const LEASE: Duration = Duration::from_secs(2);

type Named = (String, Vec<String>);

struct Program {
    name: String,
    process: Process,
    input: ChildStdin,
}

enum Said {
    Put { id: String, at_ms: u64 },
    Took { id: String, event: Event },
}

struct Run<S> {
    scene: S,
    admin: Admin,
    programs: Mutex<Vec<Program>>,
    timer: Process,
    plan: Plan,
    windows: RefCell<Vec<Window>>,
    done: Cell<usize>,
    _folder: Folder,
}

fn main() {
    let clients: Vec<Named> = std::env::args().skip(1).map(|given| named(&given)).collect();
    assert!(!clients.is_empty(), "expected: client-outages NAME=COMMAND...");
    let of_each_shape = |_| {
        [start::<OneRedisScene>(&clients), start::<SentinelScene>(&clients), start::<ClusterScene>(&clients)]
    };
    let runs: Vec<_> = (0..Plan::runs()).flat_map(of_each_shape).collect();
    let failed = runs.into_iter().map(thread::JoinHandle::join).filter(Result::is_err).count();
    assert_eq!(failed, 0, "runs failed: the messages are above");
}

fn named(given: &str) -> Named {
    let (name, command) = given.split_once('=').expect("expected: NAME=COMMAND");
    (name.to_owned(), command.split_whitespace().map(str::to_owned).collect())
}

/// On a separate thread, whose name prefixes failures.
fn start<S: Scene>(clients: &[Named]) -> thread::JoinHandle<()> {
    let clients = clients.to_vec();
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime of one thread needs nothing that can be missing").block_on(async {
            Run::<S>::start(&clients).await.through_all().await;
        });
    };
    let name = format!("client-outages: {}", S::NAME);
    thread::Builder::new().name(name).spawn(run).expect("a thread can be started")
}

// === impl Run ===

impl<S: Scene> Run<S> {
    async fn start(clients: &[Named]) -> Self {
        let (scene, folder, plan) = (S::start().await, Folder::new("outages"), Plan::of(S::OF_CLIENTS.len()));
        let (_, admin, _) = created(settings(scene.url(), S::SHARDS)).await;
        let configuration = folder.join("delayq.toml");
        let redis = format!("[deployment]\nshards = {}\n[redis]\nurl = '{}'", S::SHARDS, scene.url());
        let text = format!("{redis}\n[etcd]\nenabled = false\n[admin]\nlisten = ''\n");
        std::fs::write(&configuration, text).expect("its folder takes a file");
        let timer = Binary::new("delayq-timer").arg(&configuration).start();
        let pause_ms = if plan.is_long { LONG_PAUSE_MS } else { PAUSE_MS };
        let started = clients.iter().map(|client| Program::start(client, &scene.url(), pause_ms));
        let programs = Mutex::new(started.collect());
        let run = Self {
            scene,
            admin,
            programs,
            timer,
            plan,
            windows: RefCell::default(),
            done: Cell::new(0),
            _folder: folder,
        };
        run.deliver("begin", now_ms()).await;
        run
    }

    /// In turn, each for a random time, then checks the programs' reports.
    async fn through_all(mut self) {
        let (mut sizes, mut files_before) = (Vec::new(), Vec::new());
        let (count, kinds) = (self.plan.count, if self.plan.is_long { S::KINDS } else { S::OF_CLIENTS });
        for n in 0..count {
            conclusive(async || self.outage(kinds[n % kinds.len()]).await).await;
            let programs = self.programs.lock().await;
            sizes.push(programs.iter().map(Program::size_kib).collect::<Vec<_>>());
            if n == count / 2 {
                files_before = programs.iter().map(|one| one.process.open_files() as u64).collect();
            }
        }
        // In the short form, a freshly started runtime's heap still grows.
        if self.plan.is_long {
            assert_none_grew(S::NAME, &sizes[count / 2], &sizes[count - 1]);
        }
        // Connections attempted during the last outage may still be closing.
        let what = format!("{}: hardly more open files than in the middle, {files_before:?}", S::NAME);
        wait_until(&what, LONG, async || {
            let programs = self.programs.lock().await;
            let is_few =
                |(one, before): (&Program, &u64)| one.process.open_files() as u64 <= before + MORE_FILES;
            programs.iter().zip(&files_before).all(is_few)
        })
        .await;
        self.drain().await;
        assert_eq!(self.timer.ended(), None, "the timer:\n{}", self.timer.tail());
        let windows = self.windows.into_inner();
        for program in self.programs.into_inner() {
            program.end_and_check::<S>(if S::LOSES { &windows } else { &[] }, &windows).await;
        }
    }

    async fn outage(&self, kind: S::Kind) -> Timing {
        let n = self.done.replace(self.done.get() + 1);
        let (lasts, broken_ms) = (self.plan.length(), now_ms());
        let back = self.scene.outage(kind, lasts).await;
        let stall = Stall::watch();
        let (took, is_first) = self.deliver(&format!("after-{n}"), now_ms()).await;
        let elapsed = back.elapsed();
        // Messages of a lost answer return when their lease ends.
        let bound = if is_first { BOUND } else { BOUND + LEASE };
        eprintln!("{}: {n}: {kind:?} for {lasts:?}: over after {elapsed:?}: {took:?}", S::NAME);
        let timing = Timing::of(format!("{kind:?} for {lasts:?}"), elapsed, bound, stall.allow(bound));
        self.scene.mend().await;
        self.windows.borrow_mut().push(Window::since(broken_ms));
        timing
    }

    /// Makes every program put a message, and waits until each has received that message, and a message of its load
    /// accepted since then. Returns the time of each, and whether all were first deliveries.
    async fn deliver(&self, what: &str, since_ms: u64) -> (Vec<(String, Duration)>, bool) {
        let (began, mut took, mut is_first) = (Instant::now(), Vec::new(), true);
        let mut programs = self.programs.lock().await;
        let mut waiting: Vec<(&mut Program, usize)> = Vec::new();
        for program in &mut *programs {
            let mark = program.process.mark();
            program.say(&format!("{}-{what}", program.name));
            waiting.push((program, mark));
        }
        let mut again = began + AGAIN;
        while !waiting.is_empty() {
            if S::LOSES && Instant::now() > again {
                again += AGAIN;
                waiting.iter_mut().for_each(|(program, _)| program.say(&format!("{}-{what}", program.name)));
            }
            waiting.retain_mut(|(program, mark)| {
                let taken = program.has_taken(*mark, what, since_ms);
                if let Some(delivery) = taken {
                    took.push((program.name.clone(), began.elapsed()));
                    is_first &= delivery == 1;
                }
                taken.is_none()
            });
            for (program, _) in &mut waiting {
                let (name, tail) = (&program.name, program.process.tail());
                assert_eq!(program.process.ended(), None, "{}: {name}:\n{tail}", S::NAME);
                assert!(began.elapsed() < LONG, "{}: {name} does not deliver {what}:\n{tail}", S::NAME);
            }
            sleep(Duration::from_millis(5)).await;
        }
        (took, is_first)
    }

    async fn drain(&self) {
        let mut programs = self.programs.lock().await;
        for program in &mut *programs {
            program.say("stop");
        }
        for program in &mut *programs {
            program.process.wait_for_line("stopped", LONG).await;
            for topic in [program.name.clone(), format!("{}-idle", program.name)] {
                let topic = Topic::new(topic).expect("the name of a client");
                wait_until("everything to be delivered", LONG, async || {
                    let numbers = self.admin.topic(&topic).count().await;
                    numbers.is_ok_and(|numbers| numbers.delayed + numbers.ready + numbers.leased == 0)
                })
                .await;
            }
        }
        let audit = self.admin.audit().run(|_| {}).await.expect("an audit");
        assert!(audit.findings.is_empty() && audit.drifts.is_empty(), "{audit:?}");
    }
}

// === impl Program ===

impl Program {
    fn start((name, command): &Named, url: &str, pause_ms: u64) -> Self {
        let (program, args) = command.split_first().expect("a command has a program");
        let mut command = Command::new(program);
        command.args(args).args([url, name, &pause_ms.to_string()]);
        let (process, input) = Process::spawn_fed(name, command);
        Self { name: name.clone(), process, input }
    }

    fn say(&mut self, line: &str) {
        // The waiter reports a program that has ended.
        let _ = writeln!(self.input, "{line}");
    }

    fn size_kib(&self) -> (String, u64) {
        (self.name.clone(), self.process.resident_kib().expect("it runs"))
    }

    fn said(&self, mark: usize) -> Vec<Said> {
        self.process.lines_from(mark).iter().filter_map(|line| Said::parse(&self.name, &line.text)).collect()
    }

    /// Delivery number of the message, once the program has printed since the mark that it received the message, and a
    /// message of its load accepted since then. The first messages of the load may be lost with a master, or leased to
    /// a call whose answer was lost.
    fn has_taken(&self, mark: usize, what: &str, since_ms: u64) -> Option<u32> {
        let (own, load) = (format!("{}-{what}", self.name), format!("{}-load-", self.name));
        let (mut put, mut took) = (BTreeSet::new(), BTreeMap::new());
        for said in self.said(mark) {
            match said {
                Said::Put { id, at_ms } if id.starts_with(&load) && at_ms >= since_ms => _ = put.insert(id),
                Said::Took { id, event: Event::Delivery { delivery, .. } } => {
                    took.entry(id).or_insert(delivery);
                }
                Said::Put { .. } | Said::Took { .. } => {}
            }
        }
        let delivery = took.get(&own)?;
        put.iter().any(|id| took.contains_key(id)).then_some(*delivery)
    }

    /// Only messages accepted within a window may be lost or repeated.
    async fn end_and_check<S: Scene>(self, lost: &[Window], windows: &[Window]) {
        let Self { name, mut process, input } = self;
        drop(input);
        let status = process.wait_end(LONG).await;
        assert!(status.success(), "{name} ended with {status}:\n{}", process.tail());
        let (mut puts, mut deliveries) = (Vec::new(), Vec::new());
        for line in process.lines() {
            match Said::parse(&name, &line.text) {
                Some(Said::Put { id, at_ms }) => puts.push((id, 0, Answer::Ok, at_ms)),
                Some(Said::Took { event, .. }) => deliveries.push(event),
                None => {}
            }
        }
        eprintln!("{}: {name} has put {} messages", S::NAME, puts.len());
        let history = history(&puts, deliveries, lost);
        let permit = Permit { duplicates: usize::MAX, rewound: true, ..Permit::default() };
        assert_eq!(check(&history, &permit), Vec::new(), "{name}");
        assert_copies_are_of_outages(&history, windows);
    }
}

// === impl Said ===

impl Said {
    fn parse(name: &str, line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        match (words.next()?, words.next()?.to_owned()) {
            ("put", id) => Some(Self::Put { id, at_ms: words.next()?.parse().ok()? }),
            ("took", id) => {
                let delivery = words.next()?.parse().ok()?;
                let ready_ms = words.next()?.parse().ok()?;
                let (destination, sha256) = (name.to_owned(), sha256_hex(words.next()?.as_bytes()));
                let event = Event::Delivery { destination, id: id.clone(), sha256, delivery, ready_ms };
                Some(Self::Took { id, event })
            }
            _ => None,
        }
    }
}
