//! The commands and programs of the guide, run as printed, with payloads of any content.

use crate::look::look;
use crate::stage::{Broker, Sent, Stage, topic};
use delayq::{Admin, MessageId, Target};
use delayq_tests::content::texts;
use delayq_tests::remark::skipped;
use std::path::Path;
use std::process::Command;

pub(crate) fn block(begins: &str) -> String {
    let guide = include_str!("../../../../docs/guides/intake.md");
    let mut blocks = guide.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    let found = blocks.find(|(_, block)| block.starts_with(begins));
    found.unwrap_or_else(|| panic!("no block {begins:?}")).1.to_owned()
}

/// Runs a program of the guide as printed, then with each payload in place of `printed`, the payload of
/// message `id`. Skipped where the program's libraries are missing.
pub(crate) async fn program<B: Broker>(stage: &Stage<B>, program: &str, id: &str, printed: &str) {
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/python/.venv/bin/python");
    if !Path::new(python).exists() {
        return skipped("clients/python has no .venv: scripts/test-clients.sh install");
    }
    let folder = stage.folder.path();
    let literal = format!("b'{printed}'");
    assert!(program.contains(&literal) && program.contains(id), "{program}");
    let run_program = |program: &str| {
        std::fs::write(folder.join("program.py"), program).unwrap();
        run(folder, &format!("{python} program.py"));
    };
    run_program(program);
    stage.has_delayed(1).await;
    assert_eq!(stored(stage, id).await, printed.as_bytes());
    let program = program.replace(&literal, "open('payload', 'rb').read()");
    let payloads = texts().map(String::into_bytes).into_iter().chain([vec![0, 0xff, b'\\', b'\'']]);
    for (n, payload) in payloads.enumerate() {
        std::fs::write(folder.join("payload"), &payload).unwrap();
        run_program(&program.replace(id, &format!("m{n}")));
        stage.has_delayed(2 + n as u64).await;
        let stored = stored(stage, &format!("m{n}")).await;
        assert!(stored == payload, "{n}: {} bytes", stored.len());
    }
}

pub(crate) fn run(folder: &Path, script: &str) {
    let mut shell = Command::new("bash");
    let ran = shell.current_dir(folder).args(["-euo", "pipefail", "-c", script]).output().unwrap();
    assert!(ran.status.success(), "{script}\n{ran:?}");
}

pub(crate) async fn stored<B: Broker>(stage: &Stage<B>, id: &str) -> Vec<u8> {
    let admin = Admin::new(stage.deployment.client.clone());
    let target = Target::from(MessageId::own(id).unwrap());
    admin.topic(&topic()).get(&target).await.unwrap().unwrap().envelope.unwrap().payload
}

/// With these keys of the intake's kind, records are taken in and buried, and an operator sees the intake.
pub(crate) async fn rights_are_enough<B: Broker>(stage: &Stage<B>, login: &str) {
    let compensator = stage.compensator_with("", login).await;
    stage.broker.publish(vec![Sent::put("a", &[]), Sent::new(&[], "without an id")]).await;
    stage.has_delayed(1).await;
    assert_eq!(stage.broker.dead(1).await[0].body, b"without an id");
    stage.is_settled().await;
    compensator.stop().await;
    assert_eq!(look(&stage.broker, login).await.map(|look| look.lag), Ok(0));
}
