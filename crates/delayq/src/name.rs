//! The default name of this process.

/// `program@host:pid`, as far as the system tells.
pub(crate) fn process_name() -> String {
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}@{}:{}", program.unwrap_or_default(), host.trim(), std::process::id())
}
