//! The operators that `sampan up --with` runs beside the API server.
//!
//! Each operator is a client with a service account of its own in the namespace `operators`, and has
//! the rights of the roles in its manifests, as if it ran in another process. Its options are those of
//! its program, from the environment.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Command};
use kube_client::Client;
use kube_client::api::{Patch, PatchParams};
use tokio::time::timeout;

use apiserver::Server;
use keel::UncleanStop;
use machinery::codec::yaml;
use runtime::kube_core::{DynamicObject, GroupVersionKind, ResourceExt, TypeMeta};
use runtime::{BackgroundManager, DynamicKind, Identity, Manager, ManagerOptions};

/// The namespace of the service accounts.
const NAMESPACE: &str = "operators";

/// The time that the start waits for the caches of an operator.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// An operator that can run in the process of the server.
struct Operator {
    name: &'static str,
    /// Its program, which is the name of its service account too.
    program: &'static str,
    /// The operators whose kinds it uses.
    needs: &'static [&'static str],
    /// Reads the options. The argument is the address on which its webhooks may listen.
    configure: fn(SocketAddr) -> Result<Configured>,
}

/// An operator with its options.
struct Configured {
    /// The YAML documents that it needs in the cluster.
    manifests: Vec<String>,
    add_to: AddTo,
}

/// Adds the controllers and webhooks of an operator.
type AddTo = Box<dyn FnOnce(&Manager) -> Result<()>>;

const OPERATORS: &[Operator] = &[
    Operator {
        name: network_operator::NAME,
        program: "network-operator",
        needs: &[],
        configure: |listen| {
            let mut options: network_operator::Options = from_environment()?;
            options.webhook_listen = listen;
            Ok(Configured {
                manifests: network_operator::manifests(&url(listen)),
                add_to: Box::new(move |it| Ok(network_operator::add_to(it, &options)?)),
            })
        },
    },
    Operator {
        name: vpc_operator::NAME,
        program: "vpc-operator",
        needs: &[network_operator::NAME],
        configure: |listen| {
            let options: vpc_operator::Options = from_environment()?;
            Ok(Configured {
                manifests: vpc_operator::manifests(&url(listen)),
                add_to: Box::new(move |it| Ok(vpc_operator::add_to(it, &options)?)),
            })
        },
    },
    Operator {
        name: custompod_operator::NAME,
        program: "custompod-operator",
        needs: &[],
        configure: |listen| {
            let options: custompod_operator::Options = from_environment()?;
            Ok(Configured {
                manifests: custompod_operator::manifests(&url(listen)),
                add_to: Box::new(move |it| Ok(custompod_operator::add_to(it, &options)?)),
            })
        },
    },
    Operator {
        name: sidecar_operator::NAME,
        program: "sidecar-operator",
        needs: &[],
        configure: |listen| {
            let mut options: sidecar_operator::Options = from_environment()?;
            options.webhook_listen = listen;
            Ok(Configured {
                manifests: sidecar_operator::manifests_of(&options, &url(listen)),
                add_to: Box::new(move |it| Ok(sidecar_operator::add_to(it, &options)?)),
            })
        },
    },
];

/// The names of all operators, for messages.
fn names() -> String {
    OPERATORS.iter().map(|it| it.name).collect::<Vec<_>>().join(", ")
}

/// The operators that `--with` selects, in the order in which they start.
pub(super) struct Selected(Vec<&'static Operator>);

impl Selected {
    /// Fails if a name is unknown, or an operator lacks another one.
    pub(super) fn parse(with: &[String]) -> Result<Self> {
        for name in with {
            if !OPERATORS.iter().any(|it| it.name == name) {
                bail!("there is no operator {name:?}: --with accepts {}", names());
            }
        }
        let is_selected = |name: &str| with.iter().any(|it| it == name);
        let selected: Vec<_> = OPERATORS.iter().filter(|it| is_selected(it.name)).collect();
        for operator in &selected {
            if let Some(needed) = operator.needs.iter().find(|it| !is_selected(it)) {
                let name = operator.name;
                bail!("the operator {name} needs the operator {needed}: --with {needed},{name}");
            }
        }
        Ok(Self(selected))
    }

    /// Installs the manifests of the operators and starts them.
    pub(super) async fn start(&self, server: &Server) -> Result<Running> {
        let mut running = Running(Vec::new());
        for operator in &self.0 {
            match start(operator, server).await {
                Ok(manager) => running.0.push((operator.name, manager)),
                Err(error) => {
                    let _ = running.stop().await;
                    let name = operator.name;
                    return Err(error.context(format!("cannot start the operator {name}")));
                }
            }
        }
        Ok(running)
    }
}

/// The operators that run.
pub(super) struct Running(Vec<(&'static str, BackgroundManager)>);

impl Running {
    /// The line that `sampan up` prints; None without operators.
    pub(super) fn note(&self) -> Option<String> {
        let names: Vec<_> = self.0.iter().map(|(name, _)| *name).collect();
        (!names.is_empty()).then(|| format!("operators: {}", names.join(", ")))
    }

    /// Stops the operators.
    pub(super) async fn stop(self) -> Result<(), UncleanStop> {
        let mut result = Ok(());
        for (_, manager) in self.0.into_iter().rev() {
            result = result.and(manager.stop().await);
        }
        result
    }
}

async fn start(operator: &Operator, server: &Server) -> Result<BackgroundManager> {
    let Configured { manifests, add_to } = (operator.configure)(free_address()?)?;
    let admin = Client::new(server.in_process_client(), "default");
    for manifest in &manifests {
        apply(&admin, manifest).await?;
    }
    let account = cluster::connect(server.in_process_client())(&identity(operator));
    let mut added = Ok(());
    let options = ManagerOptions::default();
    let manager = BackgroundManager::start(operator.program, account, options, |manager| {
        added = add_to(manager);
    });
    if let Err(error) = added {
        let _ = manager.stop().await;
        return Err(error);
    }
    if timeout(START_TIMEOUT, manager.manager().wait_until_ready()).await.is_err() {
        tracing::warn!(operator = operator.name, "the operator has not read all objects yet");
    }
    let (health, readiness) = (manager.manager().clone(), manager.manager().clone());
    let name = operator.program;
    server.add_health_check(name, move || health.health().check());
    server.add_readiness_check(name, move || readiness.readiness().check());
    Ok(manager)
}

/// The service account of an operator.
fn identity(operator: &Operator) -> Identity {
    let (program, groups) = (operator.program, ["system:serviceaccounts".to_owned()]);
    Identity {
        user: format!("system:serviceaccount:{NAMESPACE}:{program}"),
        groups: groups.into_iter().chain([format!("system:serviceaccounts:{NAMESPACE}")]).collect(),
        program,
    }
}

/// Creates the object of a manifest, or updates the fields that the manifest has.
async fn apply(client: &Client, manifest: &str) -> Result<()> {
    let object = yaml::decode(manifest.as_bytes()).context("a manifest is not YAML")?.value;
    let object: DynamicObject = serde_json::from_str(&object.to_string())?;
    let TypeMeta { api_version, kind } = object.types.clone().context("a manifest has no kind")?;
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    let kind = GroupVersionKind::gvk(group, version, &kind);
    let kind = DynamicKind::discover(client, &kind).await?;
    let name = object.name_any();
    let parameters = PatchParams::apply("sampan").force();
    let api = kind.api(client, object.metadata.namespace.as_deref().unwrap_or_default());
    let applied = api.patch(&name, &parameters, &Patch::Apply(&object)).await;
    applied.map(drop).with_context(|| format!("cannot install {name}"))
}

/// The options of an operator's program, as if it was started without arguments.
fn from_environment<O: Args>() -> Result<O> {
    let matches = O::augment_args(Command::new("sampan")).try_get_matches_from(["sampan"]);
    let options = matches.and_then(|it| O::from_arg_matches(&it));
    options.map_err(|error| anyhow!("its environment is not valid: {}", error.render()))
}

/// A free port of the loopback interface. The webhooks listen on it right afterwards.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener.and_then(|it| it.local_addr()).context("no free port for webhooks")
}

fn url(listen: SocketAddr) -> String {
    format!("https://localhost:{}", listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(with: &[&str]) -> Result<Vec<&'static str>, String> {
        let with: Vec<String> = with.iter().map(|it| (*it).to_owned()).collect();
        let selected = Selected::parse(&with).map_err(|error| error.to_string())?;
        Ok(selected.0.iter().map(|it| it.name).collect())
    }

    #[test]
    fn operators_start_after_those_that_they_need() {
        assert_eq!(
            parse(&["vpc", "custompod", "network"]).unwrap(),
            ["network", "vpc", "custompod"]
        );
        assert_eq!(parse(&[]).unwrap(), [""; 0]);
    }

    #[test]
    fn an_operator_that_is_unknown_or_lacks_another_is_refused() {
        let unknown = parse(&["networks"]).unwrap_err();
        assert!(unknown.contains("--with accepts network, vpc, custompod, sidecar"), "{unknown}");
        let lacking = parse(&["vpc"]).unwrap_err();
        assert_eq!(lacking, "the operator vpc needs the operator network: --with network,vpc");
    }
}
