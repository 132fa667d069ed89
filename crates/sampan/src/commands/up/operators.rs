//! The operators that `sampan up --with` runs beside the API server.
//!
//! Each operator is a client with a service account of its own in the namespace `operators`, and has
//! the rights of the roles in its manifests, as if it ran in another process. Its options are those of
//! its program, from the environment.

mod installation;

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Args, Command};
use kube_client::Client;
use tokio::time::timeout;

use apiserver::{Server, StoreConfig};
use installation::{Document, remove_leftovers, remove_obsolete};
use keel::{Entropy, UncleanStop};
use network_operator::BackendKind;
use runtime::{BackgroundManager, Identity, Manager, ManagerOptions};

/// The namespace of the service accounts.
const NAMESPACE: &str = "operators";

/// The address of all webhooks: the system chooses the port.
const WEBHOOK_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The URL of webhooks in manifests until they listen.
const WEBHOOK_URL: &str = "https://localhost:0";

/// The length of the secret in the paths of webhooks.
const SECRET_LENGTH: usize = 32;

/// The time that the start waits for the caches of an operator.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// An operator that can run in the process of the server.
struct Operator {
    name: &'static str,
    /// Its program, which is the name of its service account too.
    program: &'static str,
    /// The operators whose kinds it uses.
    needs: &'static [&'static str],
    /// Reads the options, for a plane with this store.
    configure: fn(&StoreConfig) -> Result<Configured>,
}

/// An operator with its options.
struct Configured {
    /// The YAML documents that it needs in the cluster, with webhooks at this URL.
    manifests: Manifests,
    add_to: AddTo,
    /// A line about what the options mean.
    note: Option<&'static str>,
    /// The kinds, with their plurals, and the name of the objects that the operator writes itself with
    /// other options.
    obsolete: &'static [(&'static str, &'static str, &'static str)],
}

/// Returns the manifests with webhooks at a URL.
type Manifests = Box<dyn Fn(&str) -> Vec<String>>;

/// Adds the controllers and webhooks of an operator.
type AddTo = Box<dyn FnOnce(&Manager) -> Result<()>>;

const OPERATORS: &[Operator] = &[
    Operator {
        name: network_operator::NAME,
        program: "network-operator",
        needs: &[],
        configure: configure_network,
    },
    Operator {
        name: vpc_operator::NAME,
        program: "vpc-operator",
        needs: &[network_operator::NAME],
        configure: |_| {
            let options: vpc_operator::Options = from_environment()?;
            Ok(Configured {
                manifests: Box::new(|_| vpc_operator::manifests()),
                add_to: Box::new(move |manager| {
                    vpc_operator::add_to(manager, &options);
                    Ok(())
                }),
                note: None,
                obsolete: &[],
            })
        },
    },
    Operator {
        name: custompod_operator::NAME,
        program: "custompod-operator",
        needs: &[],
        configure: |_| {
            let options: custompod_operator::Options = from_environment()?;
            Ok(Configured {
                manifests: Box::new(|_| custompod_operator::manifests()),
                add_to: Box::new(move |manager| {
                    custompod_operator::add_to(manager, &options);
                    Ok(())
                }),
                note: None,
                obsolete: &[],
            })
        },
    },
    Operator {
        name: sidecar_operator::NAME,
        program: "sidecar-operator",
        needs: &[],
        configure: |_| {
            let mut options: sidecar_operator::Options = from_environment()?;
            options.webhook_listen = WEBHOOK_LISTEN;
            let of_manifests = options.clone();
            let is_policy = options.mode == sidecar_operator::Mode::Policy;
            Ok(Configured {
                manifests: Box::new(move |url| sidecar_operator::manifests_of(&of_manifests, url)),
                add_to: Box::new(move |manager| Ok(sidecar_operator::add_to(manager, &options)?)),
                note: None,
                obsolete: if is_policy { &[] } else { SIDECAR_POLICY },
            })
        },
    },
];

/// The policy of the sidecar operator and its binding, which is deleted first: it refuses requests
/// without its policy.
const SIDECAR_POLICY: &[(&str, &str, &str)] = &[
    (
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        sidecar_operator::INJECTION,
    ),
    ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", sidecar_operator::INJECTION),
];

fn configure_network(store: &StoreConfig) -> Result<Configured> {
    let mut options: network_operator::Options = from_environment()?;
    options.webhook_listen = WEBHOOK_LISTEN;
    let is_in_memory = matches!(store, StoreConfig::Memory);
    if is_in_memory && options.backend.is_none() {
        // The next plane is another cluster, which does not touch what this one has made.
        options.backend = Some(BackendKind::DryRun);
    }
    let note = match options.backend_kind() {
        BackendKind::DryRun => {
            "networks exist in memory only (dry run); NETWORK_BACKEND=linux makes bridges, as root"
        }
        BackendKind::Linux if is_in_memory => {
            "networks are bridges of this machine, and remain when this plane ends (ip netns list)"
        }
        BackendKind::Linux => {
            "networks are bridges of this machine; NETWORK_BACKEND=dry-run makes none"
        }
        BackendKind::Neutron => "networks are those of OpenStack Neutron",
    };
    Ok(Configured {
        manifests: Box::new(network_operator::manifests),
        add_to: Box::new(move |manager| Ok(network_operator::add_to(manager, &options)?)),
        note: Some(note),
        obsolete: &[],
    })
}

/// The names of all operators, for messages.
fn names() -> String {
    OPERATORS.iter().map(|it| it.name).collect::<Vec<_>>().join(", ")
}

/// The operators that `--with` selects, in the order in which they start.
pub(super) struct Selected(Vec<&'static Operator>);

impl Selected {
    /// Fails if a name is unknown, or an operator lacks another one.
    pub(super) fn parse(with: &[String]) -> Result<Self> {
        let with: Vec<&str> = with.iter().map(|it| it.trim()).filter(|it| !it.is_empty()).collect();
        for &name in &with {
            if !OPERATORS.iter().any(|it| it.name == name) {
                bail!("there is no operator {name:?}: --with accepts {}", names());
            }
        }
        let is_selected = |name: &str| with.contains(&name);
        let selected: Vec<_> = OPERATORS.iter().filter(|it| is_selected(it.name)).collect();
        for operator in &selected {
            if let Some(needed) = operator.needs.iter().find(|it| !is_selected(it)) {
                let name = operator.name;
                bail!("the operator {name} needs the operator {needed}: --with {needed},{name}");
            }
        }
        Ok(Self(selected))
    }

    /// What the start of the operators is called if it takes a while; none without operators.
    pub(super) fn note(&self) -> Option<String> {
        let names: Vec<&str> = self.0.iter().map(|it| it.name).collect();
        (!names.is_empty()).then(|| format!("starting the operators: {}", names.join(", ")))
    }

    /// Installs the manifests of the operators and starts them. Webhooks that an earlier start has
    /// installed for other operators are removed.
    pub(super) async fn start(&self, server: &Server, store: &StoreConfig) -> Result<Running> {
        let admin = cluster::loopback(server);
        let mut configured = Vec::new();
        let mut documents = Vec::new();
        for operator in &self.0 {
            let options = (operator.configure)(store)
                .with_context(|| format!("cannot configure the operator {}", operator.name))?;
            documents.extend(parse(operator, &(options.manifests)(WEBHOOK_URL))?);
            configured.push((*operator, options));
        }
        let notes = remove_leftovers(&admin, &documents).await;
        let notes = notes.context("cannot look for webhooks of earlier operators")?;
        let mut running = Running { managers: Vec::new(), notes };
        for (operator, options) in configured {
            running
                .notes
                .extend(remove_obsolete(&admin, operator.program, options.obsolete).await?);
            running.notes.extend(options.note.map(str::to_owned));
            match start(operator, options, server, &admin).await {
                Ok(manager) => running.managers.push((operator.name, manager)),
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
pub(super) struct Running {
    managers: Vec<(&'static str, BackgroundManager)>,
    notes: Vec<String>,
}

impl Running {
    /// The lines that `sampan up` prints.
    pub(super) fn notes(&self) -> Vec<String> {
        let names: Vec<_> = self.managers.iter().map(|(name, _)| *name).collect();
        let running = (!names.is_empty()).then(|| format!("operators: {}", names.join(", ")));
        running.into_iter().chain(self.notes.iter().cloned()).collect()
    }

    /// Stops the operators.
    pub(super) async fn stop(self) -> Result<(), UncleanStop> {
        let mut result = Ok(());
        for (_, manager) in self.managers.into_iter().rev() {
            result = result.and(manager.stop().await);
        }
        result
    }
}

async fn start(
    operator: &Operator,
    Configured { manifests, add_to, .. }: Configured,
    server: &Server,
    admin: &Client,
) -> Result<BackgroundManager> {
    let names_url = |manifest: &String| manifest.contains(WEBHOOK_URL);
    let (of_webhooks, others): (Vec<_>, Vec<_>) =
        manifests(WEBHOOK_URL).into_iter().partition(names_url);
    for document in parse(operator, &others)? {
        document.apply(admin).await?;
    }
    let account = cluster::connect(server.in_process_client())(&identity(operator));
    let mut added = Ok(());
    // A process that cannot read the webhook configurations does not know the path.
    let webhook_prefix = format!("/{}", Entropy::system().suffix(SECRET_LENGTH));
    let options = ManagerOptions { webhook_prefix: webhook_prefix.clone(), ..Default::default() };
    let tasks = server.component_tasks();
    let manager =
        BackgroundManager::start_within(&tasks, operator.program, account, options, |manager| {
            added = add_to(manager);
        });
    let installed = match added {
        Ok(()) if of_webhooks.is_empty() => Ok(()),
        Ok(()) => install_webhooks(operator, &manager, &webhook_prefix, &manifests, admin).await,
        Err(error) => Err(error),
    };
    if let Err(error) = installed {
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

/// Applies the documents that name the URL of the webhooks, once these listen.
async fn install_webhooks(
    operator: &Operator,
    manager: &BackgroundManager,
    prefix: &str,
    manifests: &dyn Fn(&str) -> Vec<String>,
    admin: &Client,
) -> Result<()> {
    let address = timeout(START_TIMEOUT, manager.manager().webhook_endpoint()).await;
    let address = address.ok().flatten().context("its webhooks do not listen")?;
    let url = format!("https://localhost:{}{prefix}", address.port());
    let mut manifests = manifests(&url);
    manifests.retain(|manifest| manifest.contains(&url));
    for document in parse(operator, &manifests)? {
        document.apply(admin).await?;
    }
    Ok(())
}

fn parse(operator: &Operator, manifests: &[String]) -> Result<Vec<Document>> {
    let parsed = manifests.iter().map(|it| Document::parse(it, operator.program));
    parsed.collect::<Result<_>>().with_context(|| format!("the operator {}", operator.name))
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

/// The options of an operator's program, as if it was started without arguments.
fn from_environment<O: Args>() -> Result<O> {
    let mut command = O::augment_args(Command::new("sampan"));
    let matches = command.try_get_matches_from_mut(["sampan"]);
    let options = matches.and_then(|it| O::from_arg_matches(&it));
    options.map_err(|error| invalid_variable(&command, &error))
}

/// The error of an environment variable. That of the parser names a flag, which `sampan up` does not
/// have.
fn invalid_variable(command: &Command, error: &clap::Error) -> anyhow::Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    };
    let argument = text(ContextKind::InvalidArg);
    let argument = command.get_arguments().find(|it| it.to_string() == argument);
    let Some(variable) = argument.and_then(Arg::get_env) else {
        return anyhow!("its environment is not valid: {}", error.render());
    };
    let (value, accepted) = (text(ContextKind::InvalidValue), text(ContextKind::ValidValue));
    let reason = match error.source() {
        Some(reason) => reason.to_string(),
        None => format!("use one of {accepted}"),
    };
    anyhow!("{}={value:?} is not valid: {reason}", variable.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(with: &[&str]) -> Result<Vec<&'static str>, String> {
        let with: Vec<String> = with.iter().map(|it| (*it).to_owned()).collect();
        let parsed = Selected::parse(&with).map_err(|error| error.to_string())?;
        Ok(parsed.0.iter().map(|it| it.name).collect())
    }

    #[test]
    fn operators_start_after_those_that_they_need() {
        assert_eq!(
            selected(&["vpc", "custompod", "network"]).unwrap(),
            ["network", "vpc", "custompod"]
        );
        assert_eq!(selected(&[]).unwrap(), [""; 0]);
    }

    #[test]
    fn an_operator_that_is_unknown_or_lacks_another_is_refused() {
        let unknown = selected(&["networks"]).unwrap_err();
        assert!(unknown.contains("--with accepts network, vpc, custompod, sidecar"), "{unknown}");
        let lacking = selected(&["vpc"]).unwrap_err();
        assert_eq!(lacking, "the operator vpc needs the operator network: --with network,vpc");
    }
}
