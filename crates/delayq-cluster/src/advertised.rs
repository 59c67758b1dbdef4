//! The address of this process's admin endpoint for other hosts, as registered in etcd.

use crate::config::EtcdConfig;
use delayq_service::config::{AdminConfig, HostPort, Listen};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::{UdpSocket, lookup_host};
use tokio::time::timeout;

/// Maximum time to look up the name of an endpoint of etcd.
const LOOKUP: Duration = Duration::from_secs(1);

/// Returns the address under which other hosts reach the endpoint that listens at `bound`: `[admin] advertise`, or else
/// the listening address. If the endpoint listens on every address of this host, the address from which etcd is reached
/// counts, or else the host's name. Empty without an endpoint.
pub async fn advertised(admin: &AdminConfig, bound: Option<SocketAddr>, etcd: &EtcdConfig) -> String {
    let (Listen::At(listen), Some(bound)) = (&admin.listen, bound) else { return String::new() };
    let host = match admin.advertise.as_str() {
        "" if bound.ip().is_unspecified() => own_host(etcd, bound.ip()).await,
        "" => listen.host().to_owned(),
        advertise => advertise.to_owned(),
    };
    HostPort::new(host, bound.port()).to_string()
}

async fn own_host(etcd: &EtcdConfig, listening: IpAddr) -> String {
    for endpoint in &etcd.endpoints {
        let Ok(Ok(found)) = timeout(LOOKUP, lookup_host(endpoint.authority())).await else { continue };
        for address in found.filter(|address| address.is_ipv4() || listening.is_ipv6()) {
            let own = own_address(address).await.ok();
            // An etcd reached from the loopback address is this host's own, or behind a proxy on this host.
            if let Some(own) = own.filter(|own| !own.is_loopback() && !own.is_unspecified()) {
                return own.to_string();
            }
        }
    }
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// This host's address on the route to `to`. Sends nothing: connecting a UDP socket only asks the routing table.
async fn own_address(to: SocketAddr) -> std::io::Result<IpAddr> {
    let any = if to.is_ipv4() { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(to).await?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn of(listen: &str, advertise: &str, bound: &str, etcd: &str) -> String {
        let admin = AdminConfig { listen: listen.parse().unwrap(), advertise: advertise.to_owned() };
        let etcd = EtcdConfig::at([etcd]).unwrap();
        advertised(&admin, bound.parse().ok(), &etcd).await
    }

    #[tokio::test]
    async fn it_names_a_host_and_the_port_that_was_given() {
        let etcd = "http://127.0.0.1:2379";
        assert_eq!(of("timer.internal:9440", "", "10.0.0.7:9440", etcd).await, "timer.internal:9440");
        assert_eq!(of("[::1]:0", "", "[::1]:4711", etcd).await, "[::1]:4711");
        assert_eq!(of("0.0.0.0:0", "10.0.0.7", "0.0.0.0:4711", etcd).await, "10.0.0.7:4711");
        assert_eq!(of("[::]:9440", "fd00::7", "[::]:9440", etcd).await, "[fd00::7]:9440");
        assert_eq!(of("", "10.0.0.7", "", etcd).await, "");
    }

    #[tokio::test]
    async fn where_every_address_is_listened_on_one_that_other_hosts_can_reach_is_named() {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        for (listen, etcd) in [
            ("0.0.0.0:9440", "http://127.0.0.1:2379"),
            ("0.0.0.0:9440", "http://[::1]:2379"),
            ("0.0.0.0:9440", "http://no-such-host.invalid:2379"),
            ("[::]:9440", "http://localhost:2379"),
        ] {
            assert_eq!(of(listen, "", listen, etcd).await, format!("{host}:9440"), "{listen} {etcd}");
        }
        // A host without a route to etcd falls back to its own name.
        let named: HostPort =
            of("0.0.0.0:9440", "", "0.0.0.0:9440", "http://192.0.2.77:2379").await.parse().unwrap();
        let is_own =
            |address: IpAddr| !address.is_loopback() && std::net::TcpListener::bind((address, 0)).is_ok();
        assert!(named.host() == host || is_own(named.host().parse().unwrap()), "{named}");
    }
}
