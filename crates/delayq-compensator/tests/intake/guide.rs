//! The commands of the guide, run as they are printed, with payloads of any content.

use crate::stage::{Broker, Stage, topic};
use delayq::{Admin, MessageId, Target};
use std::path::Path;
use std::process::Command;

/// Payloads that a shell, a template or a line would change.
pub(crate) fn payloads() -> [String; 6] {
    let texts =
        [r"C:\temp\n", r#"it's "quoted" $HOME `id`"#, "two\nlines\ttab\n", "\0 and \u{1}", "%s é \u{10348}"];
    let [a, b, c, d, e] = texts.map(str::to_owned);
    [a, b, c, d, e, "é\\\"\n".repeat(40_000)]
}

/// The shell block of the guide that begins so.
pub(crate) fn block(begins: &str) -> String {
    let guide = include_str!("../../../../docs/guides/intake.md");
    let mut blocks = guide.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("sh\n"));
    blocks.find(|block| block.starts_with(begins)).unwrap_or_else(|| panic!("no block {begins:?}")).to_owned()
}

/// Runs commands in a folder.
pub(crate) fn run(folder: &Path, script: &str) {
    let mut shell = Command::new("bash");
    let ran = shell.current_dir(folder).args(["-euo", "pipefail", "-c", script]).output().unwrap();
    assert!(ran.status.success(), "{script}\n{ran:?}");
}

/// The payload of a message.
pub(crate) async fn stored<B: Broker>(stage: &Stage<B>, id: &str) -> Vec<u8> {
    let admin = Admin::new(stage.deployment.client.clone());
    let target = Target::from(MessageId::own(id).unwrap());
    admin.get(&topic(), &target).await.unwrap().unwrap().envelope.unwrap().payload
}
