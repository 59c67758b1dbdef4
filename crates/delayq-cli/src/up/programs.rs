//! The commands that start the private servers.

use super::credentials::{Certificates, password};
use super::folder::DataFolder;
use super::ports::{NodePorts, Ports};
use super::redises::{Listens, Redis};
use crate::failure::file;
use delayq_service::Fault;
use std::fs::File;
use std::process::{Command, Stdio};

pub(super) fn redis(folder: &DataFolder, redises: &[Redis]) -> Result<Vec<Command>, Fault> {
    // Every user can read a command line.
    let secret = match redises.iter().all(Redis::is_on_socket) {
        true => String::new(),
        false => format!("requirepass {}\n", password(folder)?),
    };
    folder.replace("redis.conf", &secret)?;
    redises.iter().map(|redis| one_redis(folder, redis)).collect()
}

fn one_redis(folder: &DataFolder, redis: &Redis) -> Result<Command, Fault> {
    let data = &redis.data;
    std::fs::create_dir_all(data).map_err(|error| file(data, "make the folder", error))?;
    let mut command = Command::new("redis-server");
    command.arg(folder.join("redis.conf")).arg("--dir").arg(data);
    command.args(["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]);
    command.args(["--maxmemory-policy", "noeviction", "--daemonize", "no"]);
    match &redis.listens {
        Listens::Socket(path) => {
            command.args(["--port", "0", "--unixsocket", path, "--unixsocketperm", "700"])
        }
        Listens::Port(port) => command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]),
        Listens::Node(NodePorts { client, bus }) => command
            .args(["--port", &client.to_string(), "--bind", "127.0.0.1"])
            .args(["--cluster-enabled", "yes", "--cluster-port", &bus.to_string()]),
    };
    logged(folder, "redis.log", command)
}

pub(super) fn etcd(folder: &DataFolder, ports: &Ports) -> Result<Command, Fault> {
    // A single etcd has no peers. A socket named like this URL lies in the folder that etcd runs in.
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
