//! How the private servers are started.

use super::credentials::{Certificates, password};
use super::folder::DataFolder;
use super::ports::{NodePorts, Ports};
use crate::failure::file;
use delayq_service::Fault;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

/// The private Redis, or each node of its cluster.
pub(super) fn redis(folder: &DataFolder, ports: &Ports, socket: Option<&str>) -> Result<Vec<Command>, Fault> {
    // What stands on a command line is everybody's to read.
    let secret = match socket {
        Some(_) => String::new(),
        None => format!("requirepass {}\n", password(folder)?),
    };
    folder.replace("redis.conf", &secret)?;
    if ports.cluster.is_empty() {
        let mut command = redis_in(folder, &folder.join("redis"))?;
        match socket {
            Some(path) => command.args(["--port", "0", "--unixsocket", path, "--unixsocketperm", "700"]),
            None => command.args(["--port", &ports.redis.to_string(), "--bind", "127.0.0.1"]),
        };
        return Ok(vec![command]);
    }
    let node = |(i, node): (usize, &NodePorts)| {
        let data = folder.join("redis").join((i + 1).to_string());
        std::fs::create_dir_all(&data).map_err(|error| file(&data, "make the folder", error))?;
        let mut command = redis_in(folder, &data)?;
        command.args(["--port", &node.client.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--cluster-enabled", "yes", "--cluster-port", &node.bus.to_string()]);
        Ok(command)
    };
    ports.cluster.iter().enumerate().map(node).collect()
}

fn redis_in(folder: &DataFolder, data: &Path) -> Result<Command, Fault> {
    let mut command = Command::new("redis-server");
    command.arg(folder.join("redis.conf")).arg("--dir").arg(data);
    command.args(["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]);
    command.args(["--maxmemory-policy", "noeviction", "--daemonize", "no"]);
    logged(folder, "redis.log", command)
}

/// The private etcd.
pub(super) fn etcd(folder: &DataFolder, ports: &Ports) -> Result<Command, Fault> {
    // It has no peers. A socket named like this one lies in the folder that etcd runs in.
    const PEER: &str = "unix://localhost:2380";
    let client = format!("https://127.0.0.1:{}", ports.etcd);
    let Certificates { authority, certificate, key } = Certificates::make(folder)?;
    let mut command = Command::new("etcd");
    command.current_dir(folder.join("etcd"));
    command.args(["--name", "delayq", "--data-dir"]).arg(folder.join("etcd"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(authority);
    command.arg("--cert-file").arg(certificate).arg("--key-file").arg(key);
    command.args(["--listen-peer-urls", PEER, "--initial-advertise-peer-urls", PEER]);
    command.args(["--initial-cluster", &format!("delayq={PEER}"), "--logger", "zap", "--log-level", "warn"]);
    logged(folder, "etcd.log", command)
}

fn logged(folder: &DataFolder, name: &str, mut command: Command) -> Result<Command, Fault> {
    let path = folder.join("logs").join(name);
    let out = File::options().create(true).append(true).open(&path);
    let out = out.map_err(|error| file(&path, "write", error))?;
    let err = out.try_clone().map_err(|error| file(&path, "write", error))?;
    command.stdout(Stdio::from(out)).stderr(Stdio::from(err));
    Ok(command)
}
