//! The URL of a Redis whose sentinels name the master.

use super::hosts::Hosts;
use super::node::Node;
use delayq_core::url::SENTINEL;
use redis::ConnectionInfo;
use std::str::FromStr;

/// `redis+sentinel://[user[:password]@]host[:port],…/service[?db=N]`; `rediss+sentinel://` for TLS.
///
/// User and password belong to the Redis, not to the sentinels.
#[derive(Clone)]
pub struct SentinelUrl {
    /// At least one.
    pub(super) nodes: Vec<Node>,
    /// The sentinels' name for the master.
    pub(super) service: String,
    pub(super) tls: bool,
    /// The login and the database; the address is a placeholder for the master's address.
    pub(super) redis: ConnectionInfo,
}

// === impl SentinelUrl ===

impl SentinelUrl {
    /// Returns true if the URL has a sentinel scheme.
    pub fn is_meant_by(url: &str) -> bool {
        SENTINEL.schemes.iter().any(|(scheme, _)| url.starts_with(scheme))
    }

    pub(super) fn master(&self, node: &Node) -> ConnectionInfo {
        self.redis.clone().set_addr(node.at(self.tls))
    }
}

impl FromStr for SentinelUrl {
    type Err = String;

    /// Names each fault without repeating the user or the password.
    fn from_str(text: &str) -> Result<Self, String> {
        let hosts = Hosts::read(text, &SENTINEL)?;
        let nodes = hosts.nodes(&SENTINEL)?;
        check_service(hosts.path)?;
        let redis = hosts.redis(database(&hosts)?)?;
        Ok(Self { nodes, service: hosts.path.to_owned(), tls: hosts.tls, redis })
    }
}

/// The characters that sentinels allow.
fn check_service(service: &str) -> Result<(), String> {
    match service {
        "" => Err("the URL names no service: write the name of the master in `sentinel monitor` behind the \
                   hosts, /service"
            .to_owned()),
        service if service.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)) => {
            Ok(())
        }
        service => Err(format!(
            "`{service}` cannot be the name of a service: A-Z a-z 0-9 . - _ (a database is ?db=N)"
        )),
    }
}

fn database(hosts: &Hosts<'_>) -> Result<u16, String> {
    let mut database = 0;
    for (key, value) in hosts.query() {
        database = match key {
            "db" => value.parse().map_err(|_| "db is not the number of a database".to_owned())?,
            _ => {
                return Err(
                    "the query of the URL has an unknown parameter; a URL with sentinels has: db".to_owned()
                );
            }
        };
    }
    Ok(database)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<String>, String, bool, String) {
        let SentinelUrl { nodes, service, tls, redis } = text.parse().unwrap();
        let redis = redis.redis_settings().clone();
        let login = format!("{:?} {:?} {}", redis.username(), redis.password(), redis.db());
        (nodes.iter().map(Node::to_string).collect(), service, tls, login)
    }

    #[test]
    fn it_says_the_sentinels_the_service_and_the_login_of_the_redis() {
        let whole = read("rediss+sentinel://user:p%40ss@s1:1,[::1]:2,s3/my-master.1?db=3");
        let nodes = ["s1:1", "[::1]:2", "s3:26379"].map(str::to_owned).to_vec();
        let login = "Some(\"user\") Some(\"p@ss\") 3".to_owned();
        assert_eq!(whole, (nodes, "my-master.1".to_owned(), true, login));
        let least = read("redis+sentinel://s1/m");
        assert_eq!(least, (vec!["s1:26379".to_owned()], "m".to_owned(), false, "None None 0".to_owned()));
        assert_eq!(read("redis+sentinel://:pw@s1/m").3, "None Some(\"pw\") 0");
    }

    #[test]
    fn each_fault_is_named_and_no_secret_is_repeated() {
        for (text, named) in [
            ("redis://h:1", "expected redis+sentinel://"),
            ("redis+sentinel://:hunter2@/m", "names no sentinel"),
            ("redis+sentinel://:hunter2@s1:1", "names no service"),
            ("redis+sentinel://:hunter2@s1:1/", "names no service"),
            ("redis+sentinel://:hunter2@s1:1/m/0", "`m/0` cannot be the name of a service"),
            ("redis+sentinel://s1:1,,s2:1/m", "`` is not a sentinel"),
            ("redis+sentinel://s1:x/m", "`s1:x` is not a sentinel"),
            ("redis+sentinel://s1:99999/m", "`s1:99999` is not a sentinel"),
            ("redis+sentinel://::1:5/m", "in brackets"),
            ("redis+sentinel://s1:1,s2:1,s1:1/m", "s1:1 twice"),
            ("redis+sentinel://s1:1/m?pass=hunter2", "unknown parameter"),
            ("redis+sentinel://s1:1/m?db=hunter2", "db is not the number"),
            ("redis+sentinel://u:hun?ter2@s1:1/m", "@ behind a ?"),
            ("redis+sentinel://u:hunter2%ff@s1:1/m", "user or password cannot be read"),
            ("redis+sentinel://u:hun#ter2@s1:1/m?db=3", "user or password cannot be read"),
            ("redis+sentinel://u#hunter2@s1:1/m", "user or password cannot be read"),
        ] {
            let refusal = text.parse::<SentinelUrl>().err().unwrap_or_else(|| panic!("{text}"));
            assert!(refusal.contains(named), "{text}: {refusal}");
            assert!(!refusal.contains("ter2"), "{refusal}");
        }
    }
}
