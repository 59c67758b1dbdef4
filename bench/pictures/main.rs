//! Draws the pictures of the documents from data: `docs-figures [FOLDER]`, by default into `docs/figures`.

mod lateness;
mod life;
mod shards;
mod svg;

use std::error::Error;
use std::path::{Path, PathBuf};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/figures");

fn main() -> Result<(), Box<dyn Error>> {
    let into = std::env::args_os().nth(1).map_or_else(|| PathBuf::from(FOLDER), PathBuf::from);
    let data = |name: &str| {
        let path = Path::new(FOLDER).join(name);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    for (name, picture) in [
        ("life.svg", life::draw()?),
        ("shards.svg", shards::draw(&data("shards.json")?)?),
        ("lateness.svg", lateness::draw(&data("lateness.csv")?)?),
    ] {
        let path = into.join(name);
        std::fs::write(&path, picture).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
