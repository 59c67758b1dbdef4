//! The life of a message: its states, and the scripts that move it.
//!
//! Moves are read from the line MOVES of each script's header; paths are drawn by hand. A move without a path, or a
//! path without a move, ends the program: the picture always matches the scripts.

use crate::svg::{Anchor, Picture};
use delayq::protocol::Verb;
use std::collections::{BTreeMap, BTreeSet};

/// A state in the picture; all kinds of finished messages share a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Nothing,
    Delayed,
    Ready,
    Leased,
    Dead,
    Finished,
}

use Place::{Dead, Delayed, Finished, Leased, Nothing, Ready};

type Moves = BTreeMap<(Place, Place), BTreeSet<&'static str>>;

struct Drawn {
    between: (Place, Place),
    path: &'static str,
    label: (f64, f64, Anchor),
}

const fn drawn(from: Place, to: Place, path: &'static str, label: (f64, f64, Anchor)) -> Drawn {
    Drawn { between: (from, to), path, label }
}

const PATHS: [Drawn; 16] = [
    drawn(Nothing, Delayed, "M274 124 C204 128 146 150 134 206", (162.0, 140.0, Anchor::End)),
    drawn(Nothing, Ready, "M334 124 C404 128 402 160 404 206", (404.0, 140.0, Anchor::Start)),
    drawn(Delayed, Ready, "M204 222 L348 222", (276.0, 214.0, Anchor::Middle)),
    drawn(Ready, Delayed, "M348 244 L204 244", (276.0, 262.0, Anchor::Middle)),
    drawn(Ready, Leased, "M490 222 L634 222", (562.0, 214.0, Anchor::Middle)),
    drawn(Leased, Ready, "M634 244 L490 244", (562.0, 262.0, Anchor::Middle)),
    drawn(Leased, Delayed, "M654 260 C584 338 244 338 174 260", (276.0, 322.0, Anchor::Middle)),
    drawn(Leased, Dead, "M704 206 L704 112", (714.0, 164.0, Anchor::Start)),
    drawn(Dead, Ready, "M634 96 C504 96 444 130 436 206", (564.0, 122.0, Anchor::Middle)),
    drawn(Dead, Delayed, "M634 76 L114 76 C94 76 84 86 84 206", (484.0, 68.0, Anchor::Middle)),
    drawn(Ready, Dead, "M460 206 C470 156 560 108 634 104", (548.0, 152.0, Anchor::Start)),
    drawn(Delayed, Dead, "M104 206 L104 98 C104 90 108 86 116 86 L634 86", (300.0, 98.0, Anchor::Middle)),
    drawn(Delayed, Finished, "M114 260 L114 394", (122.0, 374.0, Anchor::Start)),
    drawn(Ready, Finished, "M419 260 L419 394", (427.0, 374.0, Anchor::Start)),
    drawn(Leased, Finished, "M704 260 L704 394", (712.0, 374.0, Anchor::Start)),
    drawn(Dead, Finished, "M774 86 L850 86 C868 86 876 96 876 120 L876 394", (868.0, 304.0, Anchor::End)),
];

const BOXES: [(&str, &str, &str, [f64; 4]); 5] = [
    ("blue", "delayed", "in a bucket", [64.0, 208.0, 140.0, 52.0]),
    ("green", "ready", "in a ready queue", [350.0, 208.0, 140.0, 52.0]),
    ("amber", "leased", "with a worker", [636.0, 208.0, 140.0, 52.0]),
    ("red", "dead", "a dead letter", [636.0, 60.0, 138.0, 52.0]),
    ("grey", "finished", "delivered, cancelled, expired or purged", [64.0, 396.0, 836.0, 52.0]),
];

pub(crate) fn draw() -> Result<String, String> {
    let mut moves = moves_of_scripts()?;
    let mut picture = Picture::new(
        924,
        500,
        "The life of a message",
        "States of a message, and the scripts that move it from one to another.",
    );
    for Drawn { path, .. } in &PATHS {
        picture.arrow(path);
    }
    for Drawn { between, label: (x, y, anchor), .. } in PATHS {
        let scripts = moves.remove(&between).ok_or_else(|| format!("no script moves {between:?}"))?;
        let scripts = scripts.into_iter().collect::<Vec<_>>().join(", ");
        picture.text([x, y], "code halo", anchor, &scripts);
    }
    if !moves.is_empty() {
        return Err(format!("no path is drawn for {moves:?}"));
    }
    picture.text([304.0, 129.0], "strong", Anchor::Middle, "new");
    for (class, name, where_it_is, place) in BOXES {
        let [x, y, width, _] = place;
        picture.area(class, place, 8.0, 1.0);
        picture.text([x + width / 2.0, y + 23.0], "on", Anchor::Middle, name);
        picture.text([x + width / 2.0, y + 41.0], "on small", Anchor::Middle, where_it_is);
    }
    let caption = "Each arrow names the scripts of lua/ that make the move, from their headers. The pump also ends leases and \
                   expiries whose time has come; operate also makes the moves of cancel, promote, reschedule and replay.";
    picture.text([24.0, 482.0], "small soft", Anchor::Start, caption);
    Ok(picture.finish())
}

/// Every move between two places, with its scripts. Moves within a place are omitted; a script for groups is listed
/// under the verb for single messages.
fn moves_of_scripts() -> Result<Moves, String> {
    let mut moves = Moves::new();
    for verb in Verb::ALL {
        for (from, to) in moves_of(verb.file()).map_err(|word| format!("{}: {word}", verb.name()))? {
            let name = match verb {
                Verb::CancelGroup => Verb::Cancel.name(),
                Verb::ShiftGroup => Verb::Reschedule.name(),
                verb => verb.name(),
            };
            // An operation makes the moves of the scripts for single messages, and buries pending messages.
            if from != to && (*verb != Verb::Operate || (to == Dead && from != Leased)) {
                moves.entry((from, to)).or_default().insert(name);
            }
        }
    }
    Ok(moves)
}

/// The moves in a header: `A | B -> C | D (why); …`.
fn moves_of(script: &str) -> Result<Vec<(Place, Place)>, String> {
    let mut moves = Vec::new();
    let text = without_notes(&header(script));
    for clause in text.split(';') {
        let mut sides = clause.split("->");
        let (Some(from), Some(_)) = (sides.next(), clause.split_once("->")) else { continue };
        for to in sides {
            for from in from.split('|') {
                // Repairing a damaged shard, or forgetting an id, is not part of a message's life.
                let Some(from) = place(from)? else { continue };
                for to in to.split(['|', ',']).filter(|to| !to.trim().is_empty() && to.trim() != "or") {
                    moves.extend(place(to)?.map(|to| (from, to)));
                }
            }
        }
    }
    Ok(moves)
}

/// Up to the next word in capitals.
fn header(script: &str) -> String {
    let lines = script.lines().skip_while(|line| !line.starts_with("-- MOVES"));
    let mut text = String::new();
    for (number, line) in lines.enumerate() {
        if number > 0 && !line.starts_with("--          ") {
            break;
        }
        text.push_str(line.trim_start_matches("-- MOVES").trim_start_matches("--"));
    }
    text
}

fn without_notes(text: &str) -> String {
    let (mut depth, mut without) = (0, String::new());
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            c if depth == 0 => without.push(c),
            _ => {}
        }
    }
    without
}

/// `None` if outside a message's life.
fn place(words: &str) -> Result<Option<Place>, String> {
    let words = words.trim().trim_start_matches("or ").trim_start_matches(',').trim();
    let first = words.split_whitespace().next().unwrap_or_default();
    Ok(Some(match first {
        "DELAYED" => Delayed,
        "READY" => Ready,
        "LEASED" => Leased,
        "DEAD" => Dead,
        "nothing" => Nothing,
        "gone" | "delivered" | "cancelled" | "expired" | "purged" => Finished,
        "marker" | "in" | "a" | "malformed" | "others" => return Ok(None),
        _ => return Err(format!("MOVES has {words:?}")),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_with_all_its_moves() {
        let header = "-- x\n-- MOVES    DELAYED -> READY; LEASED -> DELAYED | gone (its time ran out); DELAYED | READY ->\n--          expired; marker -> nothing\n--\n-- KEYS x";
        let expected =
            [(Delayed, Ready), (Leased, Delayed), (Leased, Finished), (Delayed, Finished), (Ready, Finished)];
        assert_eq!(moves_of(header).unwrap(), expected);
        assert_eq!(
            moves_of("-- MOVES    nothing -> DELAYED, or -> READY where due").unwrap(),
            [(Nothing, Delayed), (Nothing, Ready)]
        );
        assert_eq!(moves_of("-- MOVES    nothing\n").unwrap(), []);
        assert!(moves_of("-- MOVES    READY -> SOLD").is_err());
    }
}
