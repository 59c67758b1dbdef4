//! An operator's commands on etcd: keys, leases, users, compaction.

use super::{EtcdCluster, ask};
use crate::deadline::{SHORT, within};
use serde_json::{Value, json};
use tokio::process::Command;

// === impl EtcdCluster ===

impl EtcdCluster {
    /// Sets the first arguments of every later [`Self::ctl`], such as `--user` or `--cacert` and their values.
    pub fn operate_with<I: IntoIterator<Item = S>, S: Into<String>>(&mut self, arguments: I) {
        self.operator = arguments.into_iter().map(Into::into).collect();
    }

    /// Runs `etcdctl` on all endpoints, for at most five seconds.
    ///
    /// # Errors
    /// The output after a failure.
    pub async fn try_ctl(&self, words: &[&str]) -> Result<String, String> {
        self.run_ctl(&self.endpoints().join(","), "5s", words).await
    }

    /// As [`Self::try_ctl`], on a single member, from 0.
    ///
    /// # Errors
    /// As [`Self::try_ctl`].
    pub async fn try_ctl_at(&self, number: usize, words: &[&str]) -> Result<String, String> {
        self.run_ctl(&self.members[number].endpoint(), "5s", words).await
    }

    async fn run_ctl(&self, endpoints: &str, timeout: &str, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--command-timeout", timeout, "--dial-timeout", timeout]);
        command.args(["--endpoints", endpoints]).args(&self.operator).args(words).kill_on_drop(true);
        let output = within("a call of etcdctl", SHORT, command.output()).await;
        let output = output.unwrap_or_else(|e| panic!("cannot run etcdctl (Debian: etcd-client): {e}"));
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// Runs `etcdctl` on all endpoints, with retries, and returns the output.
    pub async fn ctl(&self, words: &[&str]) -> String {
        let ran = self.run_ctl(&self.endpoints().join(","), "30s", words).await;
        ran.unwrap_or_else(|why| panic!("etcdctl {words:?}: {why}"))
    }

    /// The keys with this prefix.
    pub async fn keys(&self, prefix: &str) -> Vec<String> {
        let listed = self.ctl(&["get", prefix, "--prefix", "--keys-only"]).await;
        listed.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Compacts the history up to now, which ends watches that lag.
    pub async fn compact(&self) {
        let status: Value = serde_json::from_str(&self.ctl(&["endpoint", "status", "-w", "json"]).await)
            .expect("etcdctl prints JSON when asked to");
        let revision = &status[0]["Status"]["header"]["revision"];
        self.ctl(&["compact", &revision.to_string()]).await;
    }

    /// Puts keys with empty values, at most 100 in one transaction; faster than [`Self::ctl`].
    pub async fn put_all(&self, keys: &[String]) {
        for some in keys.chunks(100) {
            let put = |key: &String| json!({ "requestPut": { "key": base64(key), "value": "" } });
            let puts: Vec<Value> = some.iter().map(put).collect();
            self.call("/v3/kv/txn", &json!({ "success": puts })).await;
        }
    }

    /// Writes a key; faster than [`Self::ctl`].
    pub async fn put(&self, key: &str, value: &str) {
        self.call("/v3/kv/put", &json!({ "key": base64(key), "value": base64(value) })).await;
    }

    /// Deletes the keys from `from` up to, but not including, `before`; faster than [`Self::ctl`].
    pub async fn delete_range(&self, from: &str, before: &str) {
        self.call("/v3/kv/deleterange", &json!({ "key": base64(from), "range_end": base64(before) })).await;
    }

    async fn call(&self, path: &str, body: &Value) {
        let member = &self.members[0];
        let answer =
            within("a call of etcd", SHORT, ask(member.client_port, "POST", path, &body.to_string())).await;
        let answer = answer.unwrap_or_default();
        let head = answer.lines().next().unwrap_or_default();
        assert!(head.contains(" 200 "), "etcd refused {path}: {answer}");
    }
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut coded = String::new();
    for three in text.as_bytes().chunks(3) {
        let bits =
            (0..3).fold(0_usize, |bits, n| bits << 8 | usize::from(three.get(n).copied().unwrap_or(0)));
        for n in 0..4 {
            let digit = char::from(DIGITS[bits >> (18 - 6 * n) & 63]);
            coded.push(if n <= three.len() { digit } else { '=' });
        }
    }
    coded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_rfc_4648_has_it() {
        for (text, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(text), coded);
        }
    }
}
