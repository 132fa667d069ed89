//! Checks of servers. Those on other machines are asked only if the user wants that.

use std::time::Duration;

use anyhow::{Result, bail};

use super::check::{Check, Status};
use crate::cluster::ClusterArgs;
use crate::image::{RegistryArgs, check_registry};
use keel::Clock;

/// The time within which a server responds.
const LIMIT: Duration = Duration::from_secs(5);

/// The kubeconfig, and its server.
pub(super) async fn cluster(args: &ClusterArgs, online: bool) -> Check {
    let optional = |found: String, next: &str| {
        Check::not_ok("run", "kubeconfig", Status::Optional, found, next)
    };
    let server = match args.server().await {
        Ok(server) => server,
        // The message says what to do.
        Err(error) => return optional(format!("{error:#}"), "sampan up"),
    };
    if !server.is_on_this_machine() && !online {
        let found = format!("{server}, which is on another machine");
        let next = "sampan doctor --online asks it";
        return Check::not_ok("run", "kubeconfig", Status::Skipped, found, next);
    }
    let asked = within_limit(async {
        let version = args.connect().await?.get("/version").await?.unwrap_or_default();
        Ok(version["gitVersion"].as_str().unwrap_or("without a version").to_owned())
    });
    match asked.await {
        Ok(version) => Check::ok("run", "kubeconfig", format!("{server}, {version}")),
        Err(error) => optional(
            format!("{server} does not respond: {error:#}"),
            "start it, or `sampan up`; `sampan run` starts a server by itself",
        ),
    }
}

/// A registry, with the credentials for it.
pub(super) async fn registry(host: &str, args: &RegistryArgs) -> Check {
    let asked = async {
        check_registry(host).map_err(anyhow::Error::msg)?;
        let credentials = args.credentials_file()?.get(host)?;
        let user = credentials.as_ref().map(|known| known.user().to_owned());
        let mut registry = args.registry(host, credentials)?;
        let accepted = registry.ping().await;
        accepted.map_err(|error| args.explain(error, host, user.as_deref()))?;
        Ok(user)
    };
    match within_limit(asked).await {
        Ok(Some(user)) => Check::ok("push", "registry", format!("{host} accepts {user}")),
        Ok(None) => Check::ok("push", "registry", format!("{host} answers without credentials")),
        Err(error) => {
            let text = format!("{error:#}");
            let (found, next) = text.split_once("; ").unwrap_or((&text, "correct --registry"));
            Check::not_ok("push", "registry", Status::Optional, found, next)
        }
    }
}

async fn within_limit<T>(asked: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        answer = asked => answer,
        () = Clock::system().sleep(LIMIT) => bail!("no answer within {} s", LIMIT.as_secs()),
    }
}
