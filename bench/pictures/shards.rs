//! The shards of a deployment and the timers that own them, from `delayq shards -o json`.

use crate::svg::{Anchor, Picture, thousands};
use serde::Deserialize;
use std::collections::BTreeMap;

const CELL: f64 = 54.0;
const GAP: f64 = 6.0;
const COLUMNS: usize = 4;
const CLASSES: [&str; 4] = ["blue", "green", "amber", "grey"];

#[derive(Deserialize)]
struct Shard {
    shard: u16,
    messages: u64,
    owner: Option<String>,
}

pub(crate) fn draw(json: &str) -> Result<String, String> {
    let shards: Vec<Shard> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let most = shards.iter().map(|shard| shard.messages).max().unwrap_or_default().max(1);
    let all: u64 = shards.iter().map(|shard| shard.messages).sum();
    let mut owned = BTreeMap::<&str, Vec<&Shard>>::new();
    for shard in &shards {
        owned.entry(shard.owner.as_deref().unwrap_or("nobody")).or_default().push(shard);
    }
    let rows = owned.values().map(|shards| shards.len().div_ceil(COLUMNS)).max().unwrap_or_default();
    let panel = COLUMNS as f64 * (CELL + GAP) + 26.0;
    let width = 48.0 + owned.len() as f64 * panel + (owned.len().max(1) - 1) as f64 * 20.0;
    let height = 150.0 + rows as f64 * (CELL + GAP);
    let title = "Shards and the timers that own them";
    let mut picture = Picture::new(width as u32, height as u32, title, "Each shard is owned by one timer.");
    for (number, (owner, shards)) in owned.iter().enumerate() {
        let left = 24.0 + number as f64 * (panel + 20.0);
        let class = CLASSES[number % CLASSES.len()];
        let messages: u64 = shards.iter().map(|shard| shard.messages).sum();
        picture.area(class, [left, 54.0, panel, height - 100.0], 10.0, 0.1);
        picture.text([left + 16.0, 78.0], "strong", Anchor::Start, owner);
        let sum = format!("{} shards, {} messages", shards.len(), thousands(messages));
        picture.text([left + panel - 16.0, 78.0], "small soft", Anchor::End, &sum);
        for (place, shard) in shards.iter().enumerate() {
            let (column, row) = ((place % COLUMNS) as f64, (place / COLUMNS) as f64);
            let (x, y) = (left + 16.0 + column * (CELL + GAP), 92.0 + row * (CELL + GAP));
            let opacity = 0.35 + 0.65 * shard.messages as f64 / most as f64;
            picture.area("card", [x, y, CELL, CELL], 6.0, 1.0);
            picture.area(class, [x, y, CELL, CELL], 6.0, opacity);
            picture.text([x + CELL / 2.0, y + 24.0], "on", Anchor::Middle, &shard.shard.to_string());
            picture.text([x + CELL / 2.0, y + 41.0], "on small", Anchor::Middle, &thousands(shard.messages));
        }
    }
    let caption = format!(
        "{} shards, {} messages with ids of their own: the number of each shard above the messages in it.",
        shards.len(),
        thousands(all)
    );
    picture.text([24.0, height - 18.0], "small soft", Anchor::Start, &caption);
    Ok(picture.finish())
}
