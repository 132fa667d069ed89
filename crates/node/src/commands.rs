//! [`Process`]: how long a container runs and how it ends, as far as its command says.
//!
//! Nothing is executed. Only trivial commands are understood: `sleep`, `true`, `false`, `echo`, and
//! `sh -c` of scripts that consist of them, see [`shell`], as far as they depend only on the pod: on
//! its variables, and on the [files](files) that its scripts and others of the node have made. Of any
//! other command nothing is known.

mod shell;
mod files;
mod node_files;

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::pod_view::{Container, EnvVar, PodView};
use files::Files;
pub(crate) use node_files::NodeFiles;
use shell::{Budget, Interpreter, Stop};

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

/// The number of bytes of a path, as in Linux.
const MAX_PATH: usize = 4_096;

/// Programs that do not handle SIGTERM.
const ENDED_BY_SIGNAL: [&str; 6] = ["sleep", "tail", "sh", "ash", "bash", "dash"];

/// The exit code of a process that was ended by SIGTERM.
const SIGTERM_CODE: i32 = 143;

/// Variables that shells set themselves.
const SHELL_VARIABLES: [&str; 10] =
    ["RANDOM", "SECONDS", "LINENO", "PWD", "OLDPWD", "UID", "EUID", "PPID", "IFS", "SHLVL"];

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
    if container.command.is_empty() && container.args.is_empty() {
        return is_server(&container.image).then_some(Process::ENDLESS);
    }
    let known = follow(pod, container, restarts, node_files).map(|(process, _)| process);
    let is_server = container.command.is_empty() && is_server(&container.image);
    known.or(is_server.then_some(Process::ENDLESS))
}

/// The exit code of a container that is stopped. Shells and `sleep` are ended by the signal; other
/// programs are servers, which handle it. (As the first process of a real container `sleep` ignores the
/// signal, and is killed after the grace period with 137; that is not waited for.)
pub(crate) fn stop_exit_code(container: &Container) -> i32 {
    let program = container.command.iter().chain(&container.args).next();
    let is_ended = program.is_some_and(|it| ENDED_BY_SIGNAL.contains(&shell::program_name(it)));
    if is_ended { SIGTERM_CODE } else { 0 }
}

/// The files that a run of a container makes, and the times after its start.
pub(crate) fn files(
    pod: &PodView,
    container: &Container,
    restarts: u32,
    node_files: &NodeFiles,
) -> BTreeMap<String, Duration> {
    let followed = follow(pod, container, restarts, node_files);
    followed.map(|(_, files)| files.into_known()).unwrap_or_default()
}

/// Follows the command of a container. Returns the files that it has after this run as well.
fn follow<'a>(
    pod: &'a PodView,
    container: &'a Container,
    restarts: u32,
    node_files: &NodeFiles,
) -> Option<(Process, Files<'a>)> {
    let command: Vec<&str> =
        container.command.iter().chain(&container.args).map(String::as_str).collect();
    let environment = OnceCell::new();
    let environment = || environment.get_or_init(|| variables_by_name(container));
    if command.iter().any(|word| has_reference(word, environment)) {
        return None;
    }
    let variable = |name: &str| variable(pod, environment(), name);
    let id = pod.container_id(&container.name, restarts);
    let spec = &pod.spec;
    let all = [&spec.containers, &spec.init_containers, &spec.ephemeral_containers];
    let mut budget = Budget::for_one_of(all.map(Vec::len).iter().sum());
    let mut files = Files::new(pod, container, &id, node_files, &mut budget).ok()?;
    if restarts > 0 && files.has_own_volume() {
        let others = files.names();
        for _ in 0..restarts.min(MAX_REPEATED_RUNS) {
            let before = files.len();
            run(&command, &mut Interpreter::new(&variable, &mut files, &mut budget))?;
            budget.take_steps(files.len()).ok()?;
            files.retain(&others);
            // No run removes files. One that adds none is like those that follow it.
            if files.len() == before {
                break;
            }
        }
    }
    let process = run(&command, &mut Interpreter::new(&variable, &mut files, &mut budget))?;
    Some((process, files))
}

fn run(command: &[&str], interpreter: &mut Interpreter<'_, '_>) -> Option<Process> {
    let exit_code = match interpreter.execute(command) {
        Ok(code) | Err(Stop::Exit(code)) => code,
        Err(Stop::Endless) => return Some(Process::ENDLESS),
        Err(Stop::NotUnderstood) => return None,
    };
    Some(Process { run_for: Some(interpreter.elapsed), exit_code })
}

/// Whether kubelets replace a part of a word of a command: `$(NAME)` by a variable, `$$` by `$`.
fn has_reference<'a>(
    word: &str,
    environment: impl Fn() -> &'a HashMap<&'a str, &'a EnvVar>,
) -> bool {
    let is_variable =
        |rest: &str| rest.split_once(')').is_some_and(|(name, _)| environment().contains_key(name));
    word.contains("$$") || word.split("$(").skip(1).any(is_variable)
}

/// Whether the image is known as that of a server: `registry.example/library/nginx:1.29@sha256:…`
fn is_server(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    let name = name.split([':', '@']).next().unwrap_or_default();
    SERVERS.contains(&name)
}

/// The environment variables of a container; of those with the same name the last.
fn variables_by_name(container: &Container) -> HashMap<&str, &EnvVar> {
    container.env.iter().map(|it| (it.name.as_str(), it)).collect()
}

/// The value of an environment variable, if it is known without looking at other objects.
fn variable(pod: &PodView, environment: &HashMap<&str, &EnvVar>, name: &str) -> Option<String> {
    if SHELL_VARIABLES.contains(&name) {
        return None;
    }
    let EnvVar { value, value_from, .. } = environment.get(name)?;
    let Some(source) = value_from else {
        // With `$` it may refer to other variables.
        return (!value.contains('$')).then(|| value.clone());
    };
    let path = source.field.as_ref()?.field_path.as_str();
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
