//! Values recognised in any text, whole or in part, plain or encoded.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// Planted secrets, and the open word, whose presence proves that a text was searched.
#[derive(Debug, Default)]
pub(super) struct Planted(Vec<(String, String)>);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Leak {
    secret: String,
    form: &'static str,
    line: String,
}

// === impl Planted ===

impl Planted {
    /// 24 digits and letters, unique, without need for escapes.
    pub(super) fn plant(&mut self, place: &str) -> String {
        let digest = Sha256::digest(place.as_bytes());
        let value: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        self.remember(place, &value);
        value
    }

    /// Adds a secret made elsewhere, such as a line of a key.
    pub(super) fn remember(&mut self, place: &str, value: &str) {
        self.0.push((place.to_owned(), value.to_owned()));
    }

    /// Even half of a secret counts.
    pub(super) fn found_in(&self, text: &str) -> Vec<Leak> {
        self.0.iter().filter_map(|(place, value)| leak(text, place, value)).collect()
    }
}

fn leak(text: &str, place: &str, value: &str) -> Option<Leak> {
    let (first, second) = value.split_at(value.len() / 2);
    [first, second].into_iter().flat_map(forms).find_map(|(form, wanted)| {
        let at = text.find(&wanted)?;
        let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = text[line..].lines().next().unwrap_or_default().chars().take(400).collect();
        Some(Leak { secret: place.to_owned(), form, line })
    })
}

fn forms(value: &str) -> Vec<(&'static str, String)> {
    let numbers: Vec<String> = value.bytes().map(|byte| byte.to_string()).collect();
    let mut forms = vec![
        ("plain", value.to_owned()),
        ("hexadecimal", value.bytes().map(|byte| format!("{byte:02x}")).collect()),
        ("bytes", numbers.join(", ")),
        ("bytes", numbers.join(",")),
    ];
    // Base64 depends on the preceding bytes; characters that depend on neighbours are cut off.
    for before in 0..3 {
        let encoded = STANDARD_NO_PAD.encode([&vec![0; before], value.as_bytes()].concat());
        let clean = [0, 2, 3][before]..(before + value.len()) / 3 * 4;
        forms.push(("base64", encoded[clean].to_owned()));
    }
    forms
}

impl fmt::Display for Leak {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the secret of {} ({}): {}", self.secret, self.form, self.line)
    }
}

#[test]
fn a_planted_secret_is_found_in_every_form_and_nothing_else_is() {
    let mut planted = Planted::default();
    let value = planted.plant("somewhere");
    planted.plant("elsewhere");
    let plain = format!("user:{value}");
    for (form, text) in [
        ("plain", format!("a\nERROR redis://{plain}@h\n")),
        ("plain", format!("password={}…", &value[..14])),
        ("hexadecimal", format!("0x{}", value.bytes().map(|byte| format!("{byte:02x}")).collect::<String>())),
        ("bytes", format!("{:?}", plain.as_bytes())),
        ("base64", format!("Basic {}", STANDARD_NO_PAD.encode(&plain))),
        ("base64", STANDARD_NO_PAD.encode(format!("\0us{plain}"))),
        ("base64", STANDARD_NO_PAD.encode(format!("\0{plain}"))),
    ] {
        let found = planted.found_in(&text);
        assert!(
            found.len() == 1 && found[0].form == form && found[0].secret == "somewhere",
            "{text}: {found:?}"
        );
    }
    assert_eq!(planted.found_in("redis://user:***@h, 0123456789abcdef"), []);
}
