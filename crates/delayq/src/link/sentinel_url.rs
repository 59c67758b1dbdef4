//! The URL of a Redis whose sentinels say where it is.

use super::node::Node;
use redis::{ConnectionInfo, IntoConnectionInfo};
use std::str::FromStr;

/// The schemes, and whether they ask for TLS.
const SCHEMES: [(&str, bool); 2] = [("redis+sentinel://", false), ("rediss+sentinel://", true)];

/// `redis+sentinel://[user[:password]@]host[:port],…/service[?db=N]`; `rediss+sentinel://` for TLS.
///
/// User and password are those of the Redis, not of its sentinels.
#[derive(Clone)]
pub struct SentinelUrl {
    /// The sentinels; at least one.
    pub(super) nodes: Vec<Node>,
    /// What they call the master.
    pub(super) service: String,
    pub(super) tls: bool,
    /// The login and the database; the address stands for the master's.
    pub(super) redis: ConnectionInfo,
}

// === impl SentinelUrl ===

impl SentinelUrl {
    /// Whether a URL is meant as one of these.
    pub fn is_meant_by(url: &str) -> bool {
        SCHEMES.iter().any(|(scheme, _)| url.starts_with(scheme))
    }

    /// How to connect to the master once it is known.
    pub(super) fn master(&self, node: &Node) -> ConnectionInfo {
        self.redis.clone().set_addr(node.at(self.tls))
    }
}

impl FromStr for SentinelUrl {
    type Err = String;

    /// Refuses by name what is wrong, without the user and the password.
    fn from_str(text: &str) -> Result<Self, String> {
        let of = |(scheme, tls): (&str, bool)| Some((text.strip_prefix(scheme)?, tls));
        let shape = "expected redis+sentinel://host:port,host:port/service";
        let (rest, tls) = SCHEMES.into_iter().find_map(of).ok_or(shape)?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if query.contains('@') {
            return Err(format!("it has an @ behind a ?: write %3F for a ? in a password; {shape}"));
        }
        let (login, place) = place.rsplit_once('@').map_or(("", place), |(login, place)| (login, place));
        let (hosts, service) = place.split_once('/').unwrap_or((place, ""));
        let nodes = nodes(hosts)?;
        check_service(service)?;
        let login = if login.is_empty() { String::new() } else { format!("{login}@") };
        let redis = format!("redis://{login}{}/{}", nodes[0], database(query)?);
        // Behind a # nothing is read: neither the login nor the database.
        let redis =
            Some(redis).filter(|redis| !redis.contains('#')).map(IntoConnectionInfo::into_connection_info);
        let redis = redis
            .and_then(Result::ok)
            .ok_or("its user or password cannot be read: write @ : / ? # % as %40 %3A %2F %3F %23 %25")?;
        Ok(Self { nodes, service: service.to_owned(), tls, redis })
    }
}

fn nodes(hosts: &str) -> Result<Vec<Node>, String> {
    if hosts.is_empty() {
        return Err("it names no sentinel: expected redis+sentinel://host:port,host:port/service".to_owned());
    }
    let nodes: Vec<Node> = hosts.split(',').map(str::parse).collect::<Result<_, _>>()?;
    match nodes.iter().enumerate().find(|(i, node)| nodes[..*i].contains(node)) {
        Some((_, twice)) => Err(format!("it names the sentinel {twice} twice")),
        None => Ok(nodes),
    }
}

/// The characters that sentinels allow.
fn check_service(service: &str) -> Result<(), String> {
    match service {
        "" => Err("it names no service: the name of the master in `sentinel monitor` belongs behind the hosts, /service".to_owned()),
        service if service.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)) => Ok(()),
        service => Err(format!("`{service}` cannot be the name of a service: A-Z a-z 0-9 . - _ (a database is ?db=N)")),
    }
}

fn database(query: &str) -> Result<u16, String> {
    let mut database = 0;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        database = match pair.split_once('=') {
            Some(("db", number)) => {
                number.parse().map_err(|_| "db is not the number of a database".to_owned())?
            }
            _ => return Err("its query has an unknown parameter; a URL with sentinels has: db".to_owned()),
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
