//! The page: its files, its sessions, what it asks of the API, and what a browser shows.

mod browser;
mod files;
mod horizon;
mod sessions;
