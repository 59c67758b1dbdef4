//! Nothing that was typed is ignored: each program refuses an unknown key in every table that the program reads, and an
//! unknown variable.

use delayq_forwarder::Kind;
use delayq_tests::binary::Binary;
use delayq_tests::deadline::SHORT;
use delayq_tests::folder::Folder;
use std::collections::BTreeSet;
use std::path::Path;

/// The services.
const SERVICES: [&str; 4] = ["delayq-timer", "delayq-forwarder", "delayq-compensator", "delayq-gateway"];
/// A table whose keys are names.
const FREE: &str = "[lmstfy.accounts]";

/// The headers of every table: of the sample, those in comments too, and of each kind of sink.
fn headers() -> Vec<String> {
    let sample = include_str!("../../../../config/delayq.toml");
    let lines = sample.lines().map(|line| line.strip_prefix('#').unwrap_or(line).to_owned());
    let of_sample: Vec<String> = lines.filter(|line| line.starts_with('[') && line.ends_with(']')).collect();
    let sinks = Kind::ALL.map(|kind| format!("[sinks.notices.{kind}]"));
    let sinks = sinks.into_iter().filter(|header| !of_sample.contains(header)).collect::<Vec<_>>();
    of_sample.into_iter().chain(sinks).filter(|header| header != FREE).collect()
}

/// The path of a table in a fault.
fn path(header: &str) -> String {
    match header.strip_prefix("[[") {
        Some(list) => format!("{}[0]", list.trim_end_matches(']')),
        None => header.trim_matches(['[', ']']).to_owned(),
    }
}

fn section(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap()
}

/// The faults that a program without a deployment finds in its configuration.
async fn faults(program: &str, file: &Path, variables: &[String]) -> String {
    let binary = match program {
        "delayq" => Binary::new(program).args(["config", "check", "--config"]),
        service => Binary::new(service),
    };
    let binary = variables.iter().fold(binary.arg(file), |binary, name| binary.env(name, "1"));
    let finished = binary.run(b"", SHORT).await;
    assert_eq!(finished.code, Some(78), "{program}: {finished:?}");
    finished.stderr
}

#[tokio::test]
async fn an_unknown_key_in_any_table_is_refused_by_every_program_that_reads_the_table() {
    let (folder, tables) = (Folder::new("typed"), headers());
    let (file, empty) = (folder.join("delayq.toml"), folder.join("empty.toml"));
    std::fs::write(&empty, "").unwrap();
    std::fs::write(
        &file,
        tables.iter().map(|header| format!("{header}\nnonsense = 1\n")).collect::<String>(),
    )
    .unwrap();
    let paths: BTreeSet<String> = tables.iter().map(|header| path(header)).collect();
    assert!(paths.len() > 30 && paths.contains("redis.nodes[0]"), "{paths:?}");
    // Sections whose keys are values, which alone can be set by a variable without a name in between.
    let is_plain = |path: &&String| !path.contains('.') && tables.contains(&format!("[{path}]"));
    let plain: Vec<&String> = paths.iter().filter(is_plain).collect();
    let variable = |section: &&String| format!("DELAYQ__{}__NONSENSE", section.to_uppercase());
    let variables: Vec<String> = plain.iter().map(variable).collect();
    let mut read_by_a_service = BTreeSet::new();
    for program in SERVICES.into_iter().chain(["delayq"]) {
        let said = faults(program, &file, &[]).await;
        let is_refused =
            |path: &&String| said.contains(&format!(" {path}.nonsense: unknown field `nonsense`"));
        let refused: BTreeSet<&String> = paths.iter().filter(is_refused).collect();
        let sections: BTreeSet<&str> = refused.iter().map(|path| section(path)).collect();
        let of_sections = paths.iter().filter(|path| sections.contains(section(path))).collect();
        assert_eq!(refused, of_sections, "{program} ignores a key of its sections:\n{said}");
        match program {
            "delayq" => assert_eq!(refused.len(), paths.len(), "config check ignores a key:\n{said}"),
            _ => read_by_a_service.extend(refused),
        }

        let said = faults(program, &empty, &variables).await;
        let refused = plain.iter().filter(|section| said.contains(&format!(" {}: ", variable(section))));
        let of_sections = plain.iter().filter(|plain| sections.contains(plain.as_str()));
        assert!(refused.eq(of_sections), "{program} ignores a variable of its sections:\n{said}");
    }
    let unread: Vec<&String> = paths.iter().filter(|path| !read_by_a_service.contains(path)).collect();
    assert!(unread.is_empty(), "no service reads {unread:?}");
}

#[tokio::test]
async fn a_misspelt_variable_is_refused_by_every_program() {
    let folder = Folder::new("typed");
    let file = folder.join("delayq.toml");
    std::fs::write(&file, "").unwrap();
    for program in SERVICES.into_iter().chain(["delayq"]) {
        for name in ["DELAYQ__REDDIS__URL", "DELAYQ_REDIS__URL", "DELAYQ__redis__url"] {
            let said = faults(program, &file, &[name.to_owned()]).await;
            assert!(said.contains(name), "{program}: {said}");
        }
    }
}
