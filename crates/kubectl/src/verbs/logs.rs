//! `logs`: what containers have printed.

use std::time::Duration;

use futures_util::{StreamExt, pin_mut};
use http::Method;
use http::header::ACCEPT;

use crate::error::Error;
use crate::flags::with_bool_values;
use crate::global::parse_timeout;
use crate::io::Io;
use crate::lists::{ListOptions, objects, with_query};
use crate::manifests::FileArgs;
use crate::session::Session;
use crate::targets::{Rules, SelectorArgs, Target, Targets};
use crate::watch::frames;
use machinery::Value;
use machinery::fields::{list, text};
use machinery::selector::LabelSelector;

/// The annotation with the container that is meant without `--container`.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Print the logs of a container
#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values), after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
pub struct LogsArgs {
    /// Pod, or TYPE/NAME of a workload, and the container
    #[arg(value_name = "POD|TYPE/NAME")]
    args: Vec<String>,
    /// Container
    #[arg(long, short, value_name = "NAME")]
    container: Option<String>,
    /// All containers of the pod
    #[arg(long)]
    all_containers: bool,
    /// All pods of a workload
    #[arg(long)]
    all_pods: bool,
    /// Follow what is printed
    #[arg(long, short)]
    follow: bool,
    /// Of the run before the last restart
    #[arg(long, short)]
    previous: bool,
    /// Print the time of each line
    #[arg(long)]
    timestamps: bool,
    /// Print the pod and the container of each line
    #[arg(long)]
    prefix: bool,
    /// A failed request is no error
    #[arg(long)]
    ignore_errors: bool,
    /// Lines from the end; -1 for all, or 10 with a selector
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    tail: Option<i64>,
    /// Lines of the last time span, such as 5m
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    since: Option<Duration>,
    /// Lines after a time, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    since_time: Option<String>,
    /// Bytes at most
    #[arg(long, value_name = "NUMBER")]
    limit_bytes: Option<u64>,
    #[command(flatten)]
    selectors: SelectorArgs,
}

const EXAMPLES: &str = "Examples:
  kubectl logs web
  kubectl logs deployment/web --all-containers
  kubectl logs -l app=web --prefix --tail 20
  kubectl logs -f web -c nginx --since 10m";

impl LogsArgs {
    /// Runs the verb.
    pub(crate) async fn run(mut self, session: &Session, io: &mut Io) -> Result<(), Error> {
        if self.args.is_empty() && self.selectors.is_empty() {
            return Err(Error::usage(
                "logs",
                "expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER]'.\nPOD or TYPE/NAME is a required argument for the logs command",
            ));
        }
        if self.args.len() == 2 && self.container.is_none() {
            self.container = self.args.pop();
        }
        if self.since.is_some() && self.since_time.is_some() {
            return Err(Error::message(
                "at most one of `sinceTime` or `sinceSeconds` may be specified",
            ));
        }
        if let Some(container) = self.container.as_ref().filter(|_| self.all_containers) {
            return Err(Error::message(format!(
                "--all-containers=true should not be specified with container name {container}"
            )));
        }
        let pods = self.pods(session, io).await?;
        let mut streams = Vec::new();
        for pod in &pods {
            for container in self.containers(io, pod)? {
                streams.push((pod, container));
            }
        }
        if self.follow && streams.len() > 1 {
            return Err(Error::message(format!(
                "{} containers are selected, and only one can be followed at a time: name its pod, \
                 and the container with --container",
                streams.len()
            )));
        }
        for (pod, container) in streams {
            let printed = self.print(session, io, pod, &container).await;
            match printed {
                Err(error) if self.ignore_errors => io.note(&error.text()),
                other => other?,
            }
            if io.is_closed() {
                break;
            }
        }
        Ok(())
    }

    /// The pods that the arguments name: themselves, or those of a workload.
    async fn pods(&self, session: &Session, io: &mut Io) -> Result<Vec<Value>, Error> {
        let mut args = self.args.clone();
        if args.is_empty() {
            args.push("pods".to_owned());
        } else if let [one] = args.as_slice()
            && !one.contains('/')
        {
            args = vec![format!("pods/{one}")];
        }
        let rules = Rules { has_selector: !self.selectors.is_empty(), ..Rules::default() };
        let files = FileArgs::default();
        let found = Targets::find(session, io, &args, &files, rules).await?;
        let not_found = |error: Error| match error {
            Error::Server(status) if status.code == 404 => Error::message(format!(
                "error from server (NotFound): {} in namespace {:?}",
                status.message, session.namespace
            )),
            other => other,
        };
        let options = ListOptions { query: self.selectors.query(), ..ListOptions::default() };
        let mut pods = Vec::new();
        for target in &found.targets {
            for object in objects(session, target, &options).await.map_err(not_found)? {
                if text(&object, "kind") == "Pod" {
                    pods.push(object);
                } else {
                    pods.extend(self.pods_of(session, io, target, &object).await?);
                }
            }
        }
        if pods.is_empty() {
            let namespace = &session.namespace;
            io.note(&format!("No resources found in {namespace} namespace."));
        }
        Ok(pods)
    }

    /// The pods that a workload selects: one, unless all are wanted.
    async fn pods_of(
        &self,
        session: &Session,
        io: &mut Io,
        target: &Target,
        workload: &Value,
    ) -> Result<Vec<Value>, Error> {
        let selector = &workload["spec"]["selector"];
        let is_plain = matches!(text(workload, "kind"), "ReplicationController" | "Service");
        let selector =
            if is_plain { machinery::json!({"matchLabels": selector}) } else { selector.clone() };
        let selector = LabelSelector::from_value(&selector).map_err(Error::message)?;
        if selector.is_empty() {
            return Err(Error::message(format!(
                "cannot get the logs from {}: it selects no pods",
                target.resource.name
            )));
        }
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let found = session.get(&path).await?;
        let mut pods: Vec<Value> = list(&found, "items").to_vec();
        pods.retain(|pod| {
            selector.matches(|key| pod["metadata"]["labels"].get(key).and_then(Value::as_str))
        });
        // Running pods first, the oldest of them first.
        pods.sort_by_key(|pod| {
            let is_running = text(&pod["status"], "phase") == "Running";
            (!is_running, text(&pod["metadata"], "creationTimestamp").to_owned())
        });
        if pods.len() > 1 && !self.all_pods {
            let name = text(&pods[0]["metadata"], "name");
            io.note(&format!("Found {} pods, using pod/{name}", pods.len()));
            pods.truncate(1);
        }
        Ok(pods)
    }

    fn containers(&self, io: &Io, pod: &Value) -> Result<Vec<String>, Error> {
        let spec = &pod["spec"];
        let names = |field| list(spec, field).iter().map(|it| text(it, "name").to_owned());
        let containers: Vec<String> = names("containers").collect();
        if let Some(name) = &self.container {
            let pod_name = text(&pod["metadata"], "name");
            let mut all =
                names("initContainers").chain(containers).chain(names("ephemeralContainers"));
            return if all.any(|it| it == *name) {
                Ok(vec![name.clone()])
            } else {
                Err(Error::message(format!("container {name} is not valid for pod {pod_name}")))
            };
        }
        if self.all_containers {
            return Ok(names("initContainers")
                .chain(containers)
                .chain(names("ephemeralContainers"))
                .collect());
        }
        let marked = text(&pod["metadata"]["annotations"], DEFAULT_CONTAINER);
        if containers.iter().any(|it| it == marked) {
            return Ok(vec![marked.to_owned()]);
        }
        if containers.len() > 1 {
            let all: Vec<String> = containers
                .iter()
                .cloned()
                .chain(names("initContainers").map(|it| format!("{it} (init)")))
                .collect();
            io.note(&format!("Defaulted container {:?} out of: {}", containers[0], all.join(", ")));
        }
        Ok(containers.into_iter().take(1).collect())
    }

    fn query(&self, container: &str) -> Vec<(&'static str, String)> {
        let mut query = vec![("container", container.to_owned())];
        for (key, is_set) in
            [("follow", self.follow), ("previous", self.previous), ("timestamps", self.timestamps)]
        {
            if is_set {
                query.push((key, "true".to_owned()));
            }
        }
        let default = if self.selectors.is_empty() { -1 } else { 10 };
        let tail = self.tail.unwrap_or(default);
        if tail >= 0 {
            query.push(("tailLines", tail.to_string()));
        }
        if let Some(since) = self.since {
            query.push(("sinceSeconds", since.as_secs().max(1).to_string()));
        }
        query.extend(self.since_time.iter().map(|it| ("sinceTime", it.clone())));
        query.extend(self.limit_bytes.map(|it| ("limitBytes", it.to_string())));
        query
    }

    async fn print(
        &self,
        session: &Session,
        io: &mut Io,
        pod: &Value,
        container: &str,
    ) -> Result<(), Error> {
        let metadata = &pod["metadata"];
        let (namespace, name) = (text(metadata, "namespace"), text(metadata, "name"));
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/log");
        let path = with_query(&path, &self.query(container));
        let response = session.send(Method::GET, &path, &[(ACCEPT, "*/*")], Vec::new()).await?;
        let parts = frames(response.into_body());
        pin_mut!(parts);
        let prefix = if self.prefix { format!("[pod/{name}/{container}] ") } else { String::new() };
        let mut line: Vec<u8> = Vec::new();
        while let Some(part) = parts.next().await {
            let part = part?;
            if prefix.is_empty() {
                io.print_bytes(&part)?;
            } else {
                line.extend(part);
                while let Some(end) = line.iter().position(|it| *it == b'\n') {
                    let whole: Vec<u8> = line.drain(..=end).collect();
                    io.print_bytes(&[prefix.as_bytes(), &whole].concat())?;
                }
            }
            if io.is_closed() {
                return Ok(());
            }
        }
        if line.is_empty() { Ok(()) } else { io.print_bytes(&[prefix.as_bytes(), &line].concat()) }
    }
}
