//! [`Components`]: the controllers and the simulated nodes that run beside the API server, as its
//! clients in the same process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::timeout;

use apiserver::auth::authentication::User;
use apiserver::auth::authorization::fixed_roles::FixedRoles;
use apiserver::{InProcessClient, Server};
use controllers::{ControllerManager, ControllerManagerOptions, Selection};
use keel::{Clock, Entropy};
use node::{Capacity, SimulatedNodes, SimulatedNodesOptions};
use runtime::client::{Connect, Identity};
use runtime::kube_client;

/// The time that the start waits for the caches of the controllers. The plane serves requests anyway.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// See the [module documentation](self).
pub(super) struct Components {
    controllers: ControllerManager,
    nodes: Option<SimulatedNodes>,
}

/// The permissions of all components.
pub(super) fn roles() -> FixedRoles {
    let controllers =
        controllers::roles().into_iter().map(|role| (role.identity.user, role.rules.to_vec()));
    let nodes = node::roles().into_iter().map(|role| (role.identity.user, role.rules.to_vec()));
    FixedRoles::new(controllers.chain(nodes))
}

impl Components {
    /// Starts the selected controllers and a number of simulated nodes, and waits until they work.
    pub(super) async fn start(server: &Server, selection: Selection, node_count: usize) -> Self {
        let (clock, entropy) = (Clock::system(), Entropy::system());
        let nodes = (node_count > 0).then(|| {
            SimulatedNodes::start(SimulatedNodesOptions {
                count: node_count,
                capacity: Capacity::default(),
                connect: connect(server.in_process_client()),
                clock: clock.clone(),
                entropy: entropy.clone(),
            })
        });
        let controllers = ControllerManager::start(ControllerManagerOptions {
            selection,
            connect: connect(server.in_process_client()),
            root_ca: server.authority().to_owned(),
            clock,
            entropy,
        });
        if timeout(START_TIMEOUT, controllers.wait_until_ready()).await.is_err() {
            tracing::warn!("the controllers have not read all objects yet");
        }
        Self { controllers, nodes }
    }

    /// Stops the nodes and the controllers.
    pub(super) async fn stop(self) -> Result<()> {
        let nodes = match self.nodes {
            Some(nodes) => nodes.stop().await,
            None => Ok(()),
        };
        let controllers = self.controllers.stop().await;
        nodes.context("some nodes did not stop in time")?;
        controllers.context("some controllers did not stop in time")
    }
}

/// Returns clients of the server for its components.
fn connect(client: InProcessClient) -> Connect {
    Arc::new(move |identity: &Identity| {
        let user = User::authenticated(&identity.user, "", identity.groups.clone());
        kube_client::Client::new(client.for_user(user), "default")
    })
}
