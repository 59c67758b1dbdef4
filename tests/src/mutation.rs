//! Mutated inputs: variants of a valid input from a damaged disk, a foreign peer or a typing error.

use fastrand::Rng;

/// The bytes with a few changed, cut out, repeated or added.
pub fn bytes(rng: &mut Rng, seed: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..rng.usize(1..6) {
        let at = rng.usize(..=bytes.len());
        match rng.u8(..6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.u8(..8),
            1 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.usize(..5)],
            2 => bytes.truncate(at),
            3 => bytes.insert(at, rng.u8(..)),
            4 if at < bytes.len() => drop(bytes.remove(at)),
            _ => {
                let from = rng.usize(..=at);
                let piece = bytes[from..at].to_vec();
                bytes.extend(piece);
            }
        }
    }
    bytes
}

/// The text with a few characters changed or cut out, and misplaced `pieces` of its grammar.
pub fn text(rng: &mut Rng, seed: &str, pieces: &[&str]) -> String {
    let mut text: Vec<char> = seed.chars().collect();
    for _ in 0..rng.usize(1..5) {
        let at = rng.usize(..=text.len());
        match rng.u8(..4) {
            0 if at < text.len() => drop(text.remove(at)),
            1 if at < text.len() => text[at] = char::from(rng.u8(..128)),
            2 => drop(text.drain(at..(at + rng.usize(..12)).min(text.len()))),
            _ => drop(text.splice(at..at, pieces[rng.usize(..pieces.len())].chars())),
        }
    }
    text.into_iter().collect()
}

/// Runs each claim, a function of the number of inputs, in two tests: with few inputs in every run, and in `long::`
/// with the number of `make fuzz`.
#[macro_export]
macro_rules! try_with_mutations {
    ($(#[test] fn $name:ident() { $claim:ident($few:literal, $many:literal) })+) => {
        $(#[test] fn $name() { $claim($few); })+

        mod long {
            $(#[test] #[ignore = "make fuzz"] fn $name() { super::$claim($many); })+
        }
    };
}
