//! Completions and manual pages, generated from the arguments for every shell and every command.

use delayq_tests::binary::Binary;
use delayq_tests::deadline::SHORT;
use delayq_tests::folder::Folder;

#[tokio::test]
async fn every_shell_has_its_script() {
    for (shell, mark) in [
        ("bash", "complete -o nospace"),
        ("zsh", "#compdef delayq"),
        ("fish", "complete --keep-order --exclusive --command delayq"),
    ] {
        let finished = Binary::new("delayq").args(["completions", shell]).run(b"", SHORT).await;
        assert_eq!(finished.code, Some(0), "{finished:?}");
        assert!(finished.stdout.contains(mark), "{shell}: {}", finished.stdout);
    }
    assert_eq!(Binary::new("delayq").args(["completions", "cobol"]).run(b"", SHORT).await.code, Some(64));
}

#[tokio::test]
async fn every_command_has_a_manual_page() {
    let folder = Folder::new("man");
    let finished = Binary::new("delayq").arg("man").arg(folder.path()).run(b"", SHORT).await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    for page in ["delayq.1", "delayq-put.1", "delayq-up.1", "delayq-work.1", "delayq-topic-set.1"] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}");
    }
    let pages = std::fs::read_dir(folder.path()).unwrap().map(|page| page.unwrap().file_name());
    let about_help: Vec<_> = pages.filter(|name| name.to_string_lossy().contains("help")).collect();
    assert_eq!(about_help, Vec::<std::ffi::OsString>::new(), "pages are for commands alone");
}

#[tokio::test]
async fn help_and_version_succeed_and_nothing_is_an_error() {
    for args in [&["--help"][..], &["help", "put"], &["--version"], &["put", "--help"]] {
        assert_eq!(Binary::new("delayq").args(args).run(b"", SHORT).await.code, Some(0), "{args:?}");
    }
    assert_eq!(Binary::new("delayq").run(b"", SHORT).await.code, Some(64));
    assert_eq!(Binary::new("delayq").arg("nonsense").run(b"", SHORT).await.code, Some(64));
}
