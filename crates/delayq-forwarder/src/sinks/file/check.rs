//! Whether the folder can be written to.

use crate::CheckError;
use std::path::{Component, Path, PathBuf};

pub(super) fn folder(dir: &Path) -> Result<(), CheckError> {
    let found = std::fs::metadata(dir)
        .map_err(|error| CheckError::Unreachable(format!("folder {}: {error}", dir.display())))?;
    if !found.is_dir() {
        return Err(CheckError::Refused(format!("{} is not a folder", dir.display())));
    }
    if found.permissions().readonly() {
        return Err(CheckError::Refused(format!("folder {} is read-only", dir.display())));
    }
    Ok(())
}

/// Must be inside the folder.
pub(super) fn path(dir: &Path, destination: &str) -> Result<PathBuf, String> {
    let within = Path::new(destination);
    // File systems reject longer names.
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(name) if name.len() <= 255);
    let plain = within.components().all(is_name);
    if destination.is_empty() || destination.ends_with('/') || destination.contains('\0') || !plain {
        return Err(format!("`{destination}` is not a path of a file within {}", dir.display()));
    }
    Ok(dir.join(within))
}
