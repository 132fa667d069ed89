//! [`Process`]: how long a container runs and how it ends, as far as its command says.
//!
//! Nothing is executed. Only trivial commands are understood: `sleep`, `true`, `false`, `echo`, and
//! `sh -c` of scripts that consist of them, see [`shell`]. Of any other command nothing is known.

mod shell;
mod node_files;

use std::cell::OnceCell;
use std::collections::HashMap;
use std::time::Duration;

use crate::pod_view::{Container, EnvVar, PodView};
pub(crate) use node_files::NodeFiles;
use shell::{Budget, Machine, Stop};

/// Images whose process serves until it is stopped.
const SERVERS: [&str; 12] = [
    "pause",
    "agnhost",
    "nginx",
    "httpd",
    "caddy",
    "traefik",
    "redis",
    "memcached",
    "postgres",
    "mysql",
    "mariadb",
    "mongo",
];

/// The largest number of earlier runs that are repeated for the sake of the files that they left.
const MAX_REPEATED_RUNS: u32 = 100;

/// The number of mounts of a container, and of volumes of a pod, that may have files; the first ones.
const MAX_VOLUMES: usize = 100;

/// What becomes of the process of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    /// The time for which it runs; `None` if it does not end by itself.
    pub run_for: Option<Duration>,
    /// Its exit code.
    pub exit_code: i32,
}

impl Process {
    /// A process that does not end by itself.
    pub(crate) const ENDLESS: Self = Self { run_for: None, exit_code: 0 };
    /// A process that succeeds at once.
    pub(crate) const SUCCESS: Self = Self { run_for: Some(Duration::ZERO), exit_code: 0 };
}

/// The process of a container, which runs after this number of restarts; `None` if its command is not
/// understood.
pub(crate) fn process(
    pod: &PodView,
    container: &Container,
    restarts: u32,
    node_files: &NodeFiles,
) -> Option<Process> {
    let command: Vec<&str> =
        container.command.iter().chain(&container.args).map(String::as_str).collect();
    if command.is_empty() {
        return is_server(&container.image).then_some(Process::ENDLESS);
    }
    let environment = OnceCell::new();
    let variable =
        |name: &str| variable(pod, environment.get_or_init(|| variables_by_name(container)), name);
    let id = pod.container_id(&container.name, restarts);
    let mut files = node_files.visible(pod, container, &id);
    let spec = &pod.spec;
    let all = [&spec.containers, &spec.init_containers, &spec.ephemeral_containers];
    let mut budget = Budget::for_one_of(all.map(Vec::len).iter().sum());
    let mounts = || container.volume_mounts.iter().take(MAX_VOLUMES);
    // Other files on volumes are those that the earlier runs have left.
    let mut is_affordable = true;
    for _ in 0..restarts.min(MAX_REPEATED_RUNS) {
        let before = files.len();
        run(&command, &mut Machine::new(&variable, &mut files, &mut budget));
        is_affordable &= budget.take_steps(files.len() * mounts().len()).is_ok();
        if !is_affordable {
            break;
        }
        files.retain(|path| mounts().any(|it| it.contains(path)));
        // No run removes files. One that adds none is like those that follow it.
        if files.len() == before {
            break;
        }
    }
    let known = run(&command, &mut Machine::new(&variable, &mut files, &mut budget));
    is_affordable &= budget.take_steps(files.len() * mounts().len()).is_ok();
    if is_affordable {
        node_files.add(pod, container, &id, &files);
    }
    let known = known.filter(|_| is_affordable);
    let is_server = container.command.is_empty() && is_server(&container.image);
    known.or(is_server.then_some(Process::ENDLESS))
}

fn run(command: &[&str], machine: &mut Machine<'_>) -> Option<Process> {
    let exit_code = match machine.execute(command) {
        Ok(code) | Err(Stop::Exit(code)) => code,
        Err(Stop::Endless) => return Some(Process::ENDLESS),
        Err(Stop::NotUnderstood) => return None,
    };
    Some(Process { run_for: Some(machine.elapsed), exit_code })
}

/// Whether the image is known as that of a server: `registry.example/library/nginx:1.29@sha256:…`
fn is_server(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    let name = name.split([':', '@']).next().unwrap_or_default();
    SERVERS.contains(&name)
}

/// The environment variables of a container; of those with the same name the first.
fn variables_by_name(container: &Container) -> HashMap<&str, &EnvVar> {
    container.env.iter().rev().map(|it| (it.name.as_str(), it)).collect()
}

/// The value of an environment variable, if it is known without looking at other objects.
fn variable(pod: &PodView, environment: &HashMap<&str, &EnvVar>, name: &str) -> Option<String> {
    let Some(EnvVar { value, value_from, .. }) = environment.get(name) else {
        return (name == "HOSTNAME").then(|| pod.metadata.name.clone());
    };
    let Some(source) = value_from else { return Some(value.clone()) };
    let path = source.field_ref.as_ref()?.field_path.as_str();
    let metadata = &pod.metadata;
    let key = |map: &str| path.strip_prefix(map)?.strip_prefix("['")?.strip_suffix("']");
    if let Some(key) = key("metadata.annotations") {
        return Some(metadata.annotations.get(key).cloned().unwrap_or_default());
    }
    if let Some(key) = key("metadata.labels") {
        return Some(metadata.labels.get(key).cloned().unwrap_or_default());
    }
    match path {
        "metadata.name" => Some(metadata.name.clone()),
        "metadata.namespace" => Some(metadata.namespace.clone()),
        "metadata.uid" => Some(metadata.uid.clone()),
        "spec.nodeName" => Some(pod.spec.node_name.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod limit_tests;
