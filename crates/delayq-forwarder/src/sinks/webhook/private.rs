//! Private addresses: a redirect to a private address is not followed unless configured.
//!
//! Another server writes the redirect. Following blindly would make the forwarder post into networks that only the
//! forwarder can reach.

use super::hosts::host_of;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A resolver that hides the private addresses of every host but one.
pub(super) struct PublicOnly {
    /// The configured host, whose addresses the operator has chosen.
    pub(super) except: String,
}

#[derive(Debug, thiserror::Error)]
#[error("{0} has private addresses only, and allow_private_redirects is false")]
pub(super) struct Private(String);

// === impl PublicOnly ===

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let all = name.eq_ignore_ascii_case(&self.except);
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let usable: Vec<SocketAddr> =
                found.into_iter().filter(|address| all || !is_private(address.ip())).collect();
            if usable.is_empty() {
                return Err(Private(name).into());
            }
            Ok(Box::new(usable.into_iter()) as Addrs)
        })
    }
}

/// True if a URL contains a private address; the resolver judges host names.
pub(super) fn names_private(url: &Url) -> bool {
    host_of(url).parse().is_ok_and(is_private)
}

/// True for an address of this host, of a private network, or of no host.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_private_v4(v4),
        IpAddr::V6(v6) => match embedded(v6) {
            Some(v4) => is_private_v4(v4),
            None => {
                v6.is_loopback()
                    || v6.is_unspecified()
                    || v6.is_unique_local()
                    || v6.is_unicast_link_local()
                    || v6.is_multicast()
            }
        },
    }
}

fn is_private_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    v4.is_private()
        || v4.is_loopback()
        || v4.is_link_local()
        || v4.is_multicast()
        || a == 0
        // Carriers' own (100.64/10), protocols' (192.0.0/24), laboratories' (198.18/15), and unassigned (240/4).
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240
}

/// The IPv4 address embedded in an IPv6 address: mapped, translated (64:ff9b::/96) or tunnelled (2002::/16).
fn embedded(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = v6.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match parts {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => v6.to_ipv4_mapped(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_only_this_network_can_reach_is_private() {
        for (address, expected) in [
            ("127.0.0.1", true),
            ("10.1.2.3", true),
            ("172.16.0.1", true),
            ("172.32.0.1", false),
            ("192.168.1.1", true),
            ("169.254.169.254", true),
            ("100.64.0.1", true),
            ("100.128.0.1", false),
            ("0.0.0.0", true),
            ("224.0.0.1", true),
            ("255.255.255.255", true),
            ("93.184.216.34", false),
            ("::1", true),
            ("::", true),
            ("fd00::1", true),
            ("fe80::1", true),
            ("::ffff:10.0.0.1", true),
            ("::ffff:93.184.216.34", false),
            ("64:ff9b::a9fe:a9fe", true),
            ("2002:7f00:1::", true),
            ("2606:2800:220:1::1", false),
        ] {
            assert_eq!(is_private(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn a_url_names_its_address_in_whatever_form() {
        for (url, expected) in [
            ("http://2130706433/", true),
            ("http://0x7f.1/", true),
            ("http://[::1]:80/", true),
            ("http://[2606:2800:220:1::1]/", false),
            ("http://example.com/", false),
        ] {
            assert_eq!(names_private(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[tokio::test]
    async fn a_name_of_private_addresses_is_looked_up_for_its_own_sink_alone() {
        let resolver = PublicOnly { except: "LOCALHOST".to_owned() };
        assert!(resolver.resolve("localhost".parse().unwrap()).await.is_ok());
        let resolver = PublicOnly { except: "hooks.example".to_owned() };
        let refused = resolver.resolve("localhost".parse().unwrap()).await.err().unwrap();
        assert!(refused.to_string().contains("allow_private_redirects"), "{refused}");
    }
}
