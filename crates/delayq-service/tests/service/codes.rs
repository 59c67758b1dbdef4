//! The tables an operator relies on: error codes and exit codes.

use delayq_service::codes::{CONFIG_FAULTY, TABLE, redis};
use delayq_service::{Exit, Fault};
use std::collections::BTreeSet;

#[test]
fn codes_are_unique_well_formed_and_explained() {
    let mut seen = BTreeSet::new();
    for code in TABLE.iter().chain(redis::TABLE) {
        assert!(seen.insert(code.id), "{} is given twice", code.id);
        let number = code.id.strip_prefix("DQ-").expect(code.id);
        assert!(number.len() == 4 && number[1..].chars().all(|c| c.is_ascii_digit()), "{}", code.id);
        for text in [code.title, code.cause].into_iter().chain(code.tries) {
            assert!(!text.is_empty() && !text.contains("  "), "{}: `{text}`", code.id);
        }
        assert_ne!(code.exit, Exit::Done, "{} is an error", code.id);
    }
}

#[test]
fn exit_codes_are_the_documented_numbers() {
    assert_eq!(Exit::ALL.map(Exit::code), [0, 64, 65, 66, 68, 69, 70, 75, 78]);
}

#[test]
fn a_fault_prints_its_code_its_sentence_and_all_causes() {
    let fault = Fault::new(&CONFIG_FAULTY, "this").because(Fault::new(&CONFIG_FAULTY, "that"));
    assert_eq!(fault.to_string(), "DQ-C001: this: that");
    assert_eq!(fault.explained().lines().count(), 5);
}
