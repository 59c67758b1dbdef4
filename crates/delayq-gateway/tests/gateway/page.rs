//! The page: files, sessions, calls of the API, and the look in a browser.

mod browser;
mod files;
mod horizon;
mod scene;
mod sessions;
