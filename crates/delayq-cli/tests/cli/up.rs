//! `delayq up`, with a command-line worker alongside.

mod doctor;
mod forwarding;
mod http;
mod intake;
mod kept;
mod port;
mod shapes;
mod sources;
mod work;

use delayq_tests::binary::{Binary, Finished};
use delayq_tests::deadline::{LONG, SHORT};
use delayq_tests::folder::Folder;
use delayq_tests::process::{Process, Signal};
use std::path::{Path, PathBuf};

struct Up {
    folder: Folder,
    process: Process,
}

// === impl Up ===

impl Up {
    async fn start(args: &[&str]) -> Self {
        let folder = Folder::new("up");
        let up = Binary::new("delayq").args(["up", "--no-etcd", "--data"]).arg(folder.join("data"));
        let mut process = up.args(args).start();
        process.wait_for_line("delayq is up", LONG).await;
        Self { folder, process }
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn delayq(&self, args: &[&str]) -> Binary {
        delayq(&self.data(), args)
    }

    async fn done(&self, args: &[&str]) -> String {
        let Finished { code, stdout, stderr } = self.delayq(args).run(b"", SHORT).await;
        assert_eq!(code, Some(0), "{args:?}: {stdout}\n{stderr}");
        stdout
    }

    async fn stop(mut self) {
        self.process.ends_well_by(Signal::INT, SHORT).await;
    }
}

fn delayq(data: &Path, args: &[&str]) -> Binary {
    Binary::new("delayq").arg("--config").arg(data.join("delayq.toml")).args(args)
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}
