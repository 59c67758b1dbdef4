//! The admin endpoints of a deployment's processes: addresses and answers.

use crate::deployment::Deployment;
use delayq_service::ask;
use delayq_service::config::HostPort;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Maximum time for an answer, name lookup included.
const DEADLINE: Duration = Duration::from_secs(15);

/// A process with an admin endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name of the process: `timer-NAME`, or the address alone without a registration.
    pub name: String,
    place: Result<HostPort, String>,
}

/// The name of the process, and the registered address of the endpoint.
type Registered = (String, String);

/// The endpoints that are registered in etcd, and the other endpoints; and the reason, if the registered endpoints are missing.
pub async fn endpoints(
    deployment: &Deployment,
    others: impl IntoIterator<Item = HostPort>,
) -> (Vec<Endpoint>, Option<String>) {
    let (mut members, mut missing) = (Vec::new(), None);
    if deployment.has_etcd() {
        match registered(deployment).await {
            Ok(found) => members = found,
            Err(why) => missing = Some(why),
        }
    }
    (of(members, others.into_iter()), missing)
}

async fn registered(deployment: &Deployment) -> Result<Vec<Registered>, String> {
    let observer = deployment.observer().map_err(|fault| fault.message())?;
    let members = observer.overview().await.map_err(|error| error.to_string())?.members;
    let with_endpoint = members.into_iter().filter(|member| !member.address.is_empty());
    Ok(with_endpoint.map(|member| (format!("timer-{}", member.name), member.address)).collect())
}

/// Every registered process by name, of several lives the latest; and the other addresses.
fn of(members: Vec<Registered>, others: impl Iterator<Item = HostPort>) -> Vec<Endpoint> {
    let members: BTreeMap<String, String> = members.into_iter().collect();
    let place = |address: &String| match address.parse::<HostPort>() {
        Err(why) => Err(why),
        Ok(place) if is_everywhere(&place) => {
            Err(format!("it registered {place}, which is not a host name: set [admin] advertise there"))
        }
        // Only a single process can answer at an address of this host.
        Ok(place) if is_here(&place) && members.values().filter(|other| *other == address).count() > 1 => {
            Err(format!(
                "several processes registered {place}: set [admin] listen to an address that other hosts can \
                 reach"
            ))
        }
        Ok(place) => Ok(place),
    };
    let registered =
        members.iter().map(|(name, address)| Endpoint { name: name.clone(), place: place(address) });
    let mut known: Vec<Endpoint> = registered.collect();
    for address in others {
        if !known.iter().any(|endpoint| endpoint.place.as_ref() == Ok(&address)) {
            known.push(Endpoint { name: address.to_string(), place: Ok(address) });
        }
    }
    known
}

fn ip(place: &HostPort) -> Option<IpAddr> {
    place.host().parse().ok()
}

fn is_everywhere(place: &HostPort) -> bool {
    ip(place).is_some_and(|address| address.is_unspecified())
}

fn is_here(place: &HostPort) -> bool {
    place.host() == "localhost" || ip(place).is_some_and(|address| address.is_loopback())
}

// === impl Endpoint ===

impl Endpoint {
    /// Asks for a path; a status other than 200 counts as an answer.
    ///
    /// # Errors
    /// The reason for the missing answer.
    pub async fn get(&self, path: &'static str) -> Result<String, String> {
        let address = self.place.clone()?;
        let asked = address.clone();
        let answer = timeout(DEADLINE, spawn_blocking(move || ask(&asked, path))).await;
        let answer = answer.map_err(|_| format!("{address} did not answer within {DEADLINE:?}"))?;
        let answer = answer.map_err(|error| error.to_string())?;
        answer.map(|(_, body)| body).map_err(|error| format!("{address} does not answer: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names, each with the address to ask, or the reason for not asking.
    fn places(members: &[(&str, &str)], others: &[&str]) -> Vec<(String, String)> {
        let members = members.iter().map(|(name, at)| ((*name).to_owned(), (*at).to_owned())).collect();
        let known = of(members, others.iter().map(|at| at.parse().unwrap()));
        let shown = |endpoint: Endpoint| {
            (endpoint.name, endpoint.place.map_or_else(|why| why, |place| place.to_string()))
        };
        known.into_iter().map(shown).collect()
    }

    #[test]
    fn each_registered_process_is_asked_whatever_the_others_registered() {
        let found = places(
            &[("timer-a", "10.0.0.1:9440"), ("timer-b", "10.0.0.2:9440"), ("timer-c", "10.0.0.1:9440")],
            &["10.0.0.2:9440", "127.0.0.1:9440"],
        );
        let expected = [
            ("timer-a", "10.0.0.1:9440"),
            ("timer-b", "10.0.0.2:9440"),
            ("timer-c", "10.0.0.1:9440"),
            ("127.0.0.1:9440", "127.0.0.1:9440"),
        ];
        assert_eq!(found, expected.map(|(name, at)| (name.to_owned(), at.to_owned())));
    }

    #[test]
    fn a_process_whose_address_leads_nowhere_or_to_another_is_named_with_the_reason() {
        let found = places(
            &[
                ("timer-a", "0.0.0.0:9440"),
                ("timer-b", "[::]:9440"),
                ("timer-c", "127.0.0.1:9440"),
                ("timer-d", "127.0.0.1:9440"),
                ("timer-e", "127.0.0.1:9441"),
            ],
            &["127.0.0.1:9440"],
        );
        for (which, words) in
            ["[admin] advertise", "[admin] advertise", "several processes", "several processes"]
                .into_iter()
                .enumerate()
        {
            assert!(found[which].1.contains(words), "{found:?}");
        }
        assert_eq!(found[4].1, "127.0.0.1:9441");
        assert_eq!(found[5].0, "127.0.0.1:9440");
    }

    #[test]
    fn of_several_lives_of_a_process_the_latest_counts() {
        let found = places(&[("timer-a", "10.0.0.1:9440"), ("timer-a", "10.0.0.9:9440")], &[]);
        assert_eq!(found, [("timer-a".to_owned(), "10.0.0.9:9440".to_owned())]);
    }
}
