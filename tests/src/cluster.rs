//! A cluster of real processes on this machine: one coordinator, workers, a gateway; each can be killed, drained,
//! restarted. Ports are picked by the system and read from what each process announces.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::process::{Process, READY_WITHIN, get, wait_for};

/// Several processes that work as one.
pub struct Cluster {
    folder: TempDir,
    flags: Vec<String>,
    coordinator_flags: Vec<String>,
    /// The coordinator.
    pub coordinator: Process,
    /// The workers, in the order they joined.
    pub workers: Vec<Process>,
    /// The gateway, where one was started.
    pub gateway: Option<Process>,
    address: SocketAddr,
    started: usize,
}

impl Cluster {
    /// Starts a coordinator and `workers` workers; `flags` go to all, `coordinator_flags` to the coordinator alone.
    pub fn start(workers: usize, flags: &[String], coordinator_flags: &[&str]) -> Result<Self> {
        let folder = TempDir::new()?;
        let coordinator_flags: Vec<String> = coordinator_flags
            .iter()
            .map(|&flag| flag.to_owned())
            .collect();
        let (coordinator, address) =
            coordinator(&folder, "127.0.0.1:0", flags, &coordinator_flags)?;
        let mut cluster = Self {
            folder,
            flags: flags.to_vec(),
            coordinator_flags,
            coordinator,
            workers: Vec::new(),
            gateway: None,
            address,
            started: 0,
        };
        for _ in 0..workers {
            cluster.add_worker()?;
        }
        Ok(cluster)
    }

    /// What `--coordinator` takes.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Starts one more worker, named in its User-Agent, and waits until it is ready. Returns its User-Agent.
    pub fn add_worker(&mut self) -> Result<String> {
        let name = format!("worker-{}", self.started);
        self.started += 1;
        let agent = agent_of(&name);
        let mut args = vec!["worker".to_owned()];
        args.extend(["--coordinator".to_owned(), self.url()]);
        args.extend(["--metrics-listen", "127.0.0.1:0", "--worker-id", &name].map(str::to_owned));
        args.extend(["--user-agent".to_owned(), agent.clone()]);
        args.extend_from_slice(&self.flags);
        let mut worker = Process::start(&name, &self.folder.path().join(&name), &args)?;
        worker.wait_ready("metrics")?;
        self.workers.push(worker);
        Ok(agent)
    }

    /// Starts a gateway and waits until it is ready. Returns where it serves HTTP.
    pub fn add_gateway(&mut self) -> Result<SocketAddr> {
        let mut args = vec!["gateway".to_owned()];
        args.extend(["--coordinator".to_owned(), self.url()]);
        args.extend(
            ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"].map(str::to_owned),
        );
        args.extend_from_slice(&self.flags);
        let mut gateway = Process::start("gateway", &self.folder.path().join("gateway"), &args)?;
        let address = gateway.wait_ready("http")?;
        self.gateway = Some(gateway);
        Ok(address)
    }

    /// Starts the coordinator again on its folder and its address, after it has ended.
    pub fn restart_coordinator(&mut self) -> Result<()> {
        let listen = self.address.to_string();
        let (process, address) =
            coordinator(&self.folder, &listen, &self.flags, &self.coordinator_flags)?;
        self.coordinator = process;
        self.address = address;
        Ok(())
    }

    /// The `/metrics` page of a process.
    pub fn metrics(process: &mut Process) -> Result<String> {
        let address = process.address("metrics")?;
        wait_for("metrics", READY_WITHIN, || Ok(get(address, "/metrics")?.1))
    }
}

/// The User-Agent of a worker: one product token for robots.txt, and who asks.
pub fn agent_of(worker: &str) -> String {
    format!("CrawlForge/0.1 (+https://crawlforge.test/bot; {worker})")
}

fn coordinator(
    folder: &TempDir,
    listen: &str,
    flags: &[String],
    own: &[String],
) -> Result<(Process, SocketAddr)> {
    let mut args = vec!["coordinator".to_owned()];
    args.extend(["--listen", listen, "--metrics-listen", "127.0.0.1:0"].map(str::to_owned));
    args.extend_from_slice(flags);
    args.extend_from_slice(own);
    let mut process = Process::start("coordinator", &folder.path().join("coordinator"), &args)?;
    process
        .address("metrics")
        .context("start the coordinator")?;
    let address = process.address("coordinator")?;
    Ok((process, address))
}
