//! The page: its files, its sessions, its calls of the API, and its look in a browser.

mod browser;
mod files;
mod horizon;
mod scene;
mod sessions;
