//! The `CustomPod` operator: keeps the desired number of pods of each `CustomPod`.
//!
//! The server is that of `KUBECONFIG` or of the service account. `ENDPOINT` is the address for
//! health, metrics and the page of recent reconciles; `POD_NAMESPACE` and `POD_NAME`, if both are
//! set, enable leader election.

use std::env;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

use runtime::{LeaderElection, Manager, ManagerOptions, client};

mod controller;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let endpoint = env::var("ENDPOINT").ok().map(|address| address.parse()).transpose();
    let identity = env::var("POD_NAMESPACE").ok().zip(env::var("POD_NAME").ok());
    let options = ManagerOptions {
        endpoint: endpoint.context("ENDPOINT should be an address such as 127.0.0.1:8080")?,
        leader_election: identity.map(|(namespace, pod)| {
            LeaderElection::new(&namespace, "custompod-operator").identity(&pod)
        }),
        ..ManagerOptions::default()
    };
    let client = client::connect(client::infer().await?, &options.clock)?;
    let manager = Manager::new(client, options);
    manager.add(controller::controller(&manager));
    Ok(manager.run().await?)
}
