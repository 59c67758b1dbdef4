//! Checks that a Redis keeps delivered data.

use super::link::{RedisLink, check_key, code};
use crate::CheckError;
use redis::{Cmd, cmd, from_redis_value};

pub(super) async fn check(
    link: &RedisLink,
    key: Option<&str>,
    wanted: &str,
    create: bool,
) -> Result<Vec<String>, CheckError> {
    let mut warnings = match text(link, cmd("INFO").arg("everything")).await? {
        Some(info) => {
            judge(&info).map_err(|why| CheckError::Refused(format!("Redis {}: {why}", link.address())))?
        }
        None => vec![
            "this user lacks the command INFO: make sure that the Redis is a master with maxmemory-policy \
             noeviction and appendonly, or allow +info"
                .to_owned(),
        ],
    };
    warnings.iter_mut().for_each(|warning| *warning = format!("Redis {}: {warning}", link.address()));
    if let Some(key) = key {
        check_key(key).map_err(CheckError::Refused)?;
        let Some(found) = text(link, cmd("TYPE").arg(key)).await? else {
            warnings.push(format!(
                "this user lacks the command TYPE for `{key}`: make sure that the key is a {wanted}"
            ));
            return Ok(warnings);
        };
        match found.as_str() {
            "none" if !create => {
                return Err(CheckError::Unreachable(format!("the {wanted} `{key}` does not exist")));
            }
            "none" => {}
            found if found == wanted => {}
            found => {
                return Err(CheckError::Refused(format!("the key `{key}` is a {found}, not a {wanted}")));
            }
        }
    }
    Ok(warnings)
}

/// `None`: this user lacks the permission.
async fn text(link: &RedisLink, command: &Cmd) -> Result<Option<String>, CheckError> {
    match link.run(command).await {
        Err(error) if code(&error) == Some("NOPERM") => Ok(None),
        Err(error) => Err(CheckError::Unreachable(link.reason(&error))),
        Ok(value) => {
            from_redis_value(value).map(Some).map_err(|error| CheckError::Unreachable(error.to_string()))
        }
    }
}

fn judge(info: &str) -> Result<Vec<String>, String> {
    let field = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map_or("", str::trim)
    };
    let mut warnings = Vec::new();
    if field("role") == "slave" {
        return Err("this Redis is a replica; deliver to the master".to_owned());
    }
    match field("maxmemory_policy") {
        "" | "noeviction" => {}
        policy if policy.starts_with("volatile-") => {
            warnings.push(format!(
                "maxmemory-policy {policy} deletes keys with a time to live; set no time to live on the destination"
            ));
        }
        policy => {
            return Err(format!(
                "maxmemory-policy {policy} deletes delivered messages when memory runs out; set noeviction"
            ));
        }
    }
    if field("aof_enabled") == "0" {
        warnings.push(
            "appendonly is off: messages confirmed since the last snapshot are lost in a crash".to_owned(),
        );
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evicting_redis_is_refused_by_the_name_of_the_setting() {
        let refusal = judge("role:master\r\nmaxmemory_policy:allkeys-lru\r\naof_enabled:1\r\n").unwrap_err();
        assert!(refusal.contains("maxmemory-policy allkeys-lru"), "{refusal}");
        assert!(judge("role:slave\r\n").is_err());
    }

    #[test]
    fn what_may_be_meant_is_a_warning() {
        for (info, warnings) in [
            ("role:master\nmaxmemory_policy:noeviction\naof_enabled:1\n", 0),
            ("role:master\nmaxmemory_policy:volatile-ttl\naof_enabled:0\n", 2),
        ] {
            assert_eq!(judge(info).unwrap().len(), warnings, "{info}");
        }
    }
}
