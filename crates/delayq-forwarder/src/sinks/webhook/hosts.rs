//! The limit on concurrent requests to each host, over all sinks that post there.

use reqwest::Url;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Semaphore;

#[derive(Debug, Default)]
pub(crate) struct Hosts(BTreeMap<String, Host>);

#[derive(Debug)]
struct Host {
    free: Arc<Semaphore>,
    most: usize,
}

// === impl Hosts ===

impl Hosts {
    /// The permits for requests to the host of a URL; if sinks differ, the smallest number applies.
    pub(super) fn limit(&mut self, url: &Url, most: usize) -> Arc<Semaphore> {
        let name = format!("{}:{}", host_of(url), url.port_or_known_default().unwrap_or_default());
        let host = self.0.entry(name).or_insert_with(|| Host { free: Arc::new(Semaphore::new(most)), most });
        if most < host.most {
            // Sinks are created before anything is sent: all permits are free.
            host.free.forget_permits(host.most - most);
            host.most = most;
        }
        host.free.clone()
    }
}

/// The host of a URL; an address without its brackets.
pub(super) fn host_of(url: &Url) -> &str {
    url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinks_of_one_host_share_the_smallest_limit() {
        let url = |text: &str| Url::parse(text).unwrap();
        let mut hosts = Hosts::default();
        let one = hosts.limit(&url("https://h/a"), 8);
        let other = hosts.limit(&url("https://H:443/b"), 3);
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(one.available_permits(), 3);
        hosts.limit(&url("https://h/c"), 64);
        assert_eq!(one.available_permits(), 3);
        assert_eq!(hosts.limit(&url("https://h:8443/"), 5).available_permits(), 5);
    }
}
