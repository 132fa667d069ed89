//! `sampan auth can-i`: whether an action is allowed, and which role would allow it.

use std::process::ExitCode;

use anyhow::{Result, bail};
use kube_client::Client;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::discovery::find_resource;
use super::rules::{self, Action};
use super::suggestion::{Refused, suggest};
use crate::connection::{Connection, ConnectionArgs, ImpersonationArgs, explain, who_am_i};
use crate::output::{print, print_line, print_note};
use crate::table::aligned;
use client::json_requests::{create, get};
use keel::Clock;
use machinery::{Value, json};

const EXAMPLES: &str = "Examples:
  sampan auth can-i create pods --all-namespaces
  sampan auth can-i list deployments.apps --namespace shop
  sampan auth can-i get pods/web --subresource log --as jane --namespace shop
  sampan auth can-i get /metrics
  sampan auth can-i '*' '*'
  sampan auth can-i --list --as jane --namespace shop

The exit code is 0 for yes and 1 for no. After a no, the role that would allow it
is named on standard error, if you may read roles.";

/// The verbs of resources.
const RESOURCE_VERBS: [&str; 16] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "use",
    "bind",
    "impersonate",
    "*",
    "approve",
    "sign",
    "escalate",
    "attest",
];

/// The verbs of paths.
const PATH_VERBS: [&str; 8] = ["get", "put", "post", "head", "options", "delete", "patch", "*"];

/// Ask whether an action is allowed
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of kubectl")]
pub(super) struct CanIArgs {
    /// Verb, as in `get`, `list`, `create` or `*`
    #[arg(value_name = "VERB", required_unless_present = "list", conflicts_with = "list")]
    verb: Option<String>,
    /// Resource, an object as in `pods/web`, or a path that begins with `/`
    #[arg(value_name = "RESOURCE", required_unless_present = "list", conflicts_with = "list")]
    resource: Option<String>,
    /// Subresource, as in `log` or `scale`
    #[arg(long, value_name = "NAME", conflicts_with = "list")]
    subresource: Option<String>,
    /// Namespace [default: that of the context]
    #[arg(long, short, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// Ask for all namespaces
    #[arg(long, short = 'A', conflicts_with = "list")]
    all_namespaces: bool,
    /// Print everything that is allowed in the namespace
    #[arg(long)]
    list: bool,
    /// Print the list without its title
    #[arg(long, requires = "list")]
    no_headers: bool,
    /// Print nothing: the exit code is the answer
    #[arg(long, short, conflicts_with = "list")]
    quiet: bool,
    #[command(flatten)]
    impersonation: ImpersonationArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Runs the command. The exit code is 1 if the answer is no.
pub(super) async fn run(args: CanIArgs, clock: &Clock) -> Result<ExitCode> {
    args.connection.run(clock, async |connection| answer(&args, connection).await).await
}

async fn answer(args: &CanIArgs, connection: &Connection) -> Result<ExitCode> {
    let client = connection.acting_as(&args.impersonation)?;
    let namespace = match (&args.namespace, args.all_namespaces) {
        (_, true) => String::new(),
        (Some(namespace), false) => namespace.clone(),
        (None, false) => connection.namespace.clone(),
    };
    let (Some(verb), Some(word)) = (&args.verb, &args.resource) else {
        list(&client, &namespace, args.no_headers).await?;
        return Ok(ExitCode::SUCCESS);
    };
    // Every user sees the same resources, but not every one may list them.
    let asked = Question::new(&connection.client, args, verb, word, namespace).await?;
    let status = asked.send(&client).await?;
    if status["allowed"] == true {
        if !args.quiet {
            print_line("yes")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !args.quiet {
        let text = |field: &str| match status[field].as_str() {
            Some(reason) if !reason.is_empty() => format!(" - {reason}"),
            _ => String::new(),
        };
        print_line(&format!("no{}{}", text("reason"), text("evaluationError")))?;
        asked.explain_refusal(connection, &client, args).await;
    }
    Ok(ExitCode::FAILURE)
}

/// What is asked.
struct Question {
    verb: String,
    action: Action,
    /// Empty for all namespaces.
    namespace: String,
    /// Whether the rights in a namespace count.
    is_namespaced: bool,
    /// Whether the server has the resource, and Kubernetes the verb.
    is_known: bool,
}

impl Question {
    async fn new(
        client: &Client,
        args: &CanIArgs,
        verb: &str,
        word: &str,
        namespace: String,
    ) -> Result<Self> {
        let verb = verb.to_owned();
        if word.starts_with('/') {
            if args.subresource.is_some() {
                bail!("--subresource can not be used with NonResourceURL");
            }
            let is_known = is_known_verb(&verb, &PATH_VERBS);
            let action = Action::Path(word.to_owned());
            return Ok(Self { verb, action, namespace, is_namespaced: false, is_known });
        }
        let (word, name) = word.split_once('/').unwrap_or((word, ""));
        let (group, resource, is_namespaced, is_known) = match word {
            "*" => (String::new(), "*".to_owned(), true, true),
            _ => resolve(client, word).await?,
        };
        if !is_namespaced && !args.all_namespaces {
            let place =
                if group.is_empty() { String::new() } else { format!(" in group '{group}'") };
            warn(&format!("resource '{resource}' is not namespace scoped{place}"));
        }
        let is_known = is_known_verb(&verb, &RESOURCE_VERBS) && is_known;
        let resource = match &args.subresource {
            Some(subresource) => format!("{resource}/{subresource}"),
            None => resource,
        };
        let action = Action::Resource { group, resource, name: name.to_owned() };
        Ok(Self { verb, action, namespace, is_namespaced, is_known })
    }

    /// Asks the server and returns the status of the review.
    async fn send(&self, client: &Client) -> Result<Value> {
        let spec = match &self.action {
            Action::Resource { group, resource, name } => {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                json!({"resourceAttributes": {
                    "namespace": self.namespace, "verb": self.verb, "group": group,
                    "resource": resource, "subresource": subresource, "name": name,
                }})
            }
            Action::Path(path) => {
                json!({"nonResourceAttributes": {"verb": self.verb, "path": path}})
            }
        };
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec,
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let mut reviewed: Value = create(client, path, &review).await.map_err(explain)?;
        Ok(reviewed["status"].take())
    }

    /// Says which role would give the right, as far as the user of the context may know.
    async fn explain_refusal(&self, connection: &Connection, client: &Client, args: &CanIArgs) {
        if !self.is_known {
            return;
        }
        let user = if let Some(user) = &args.impersonation.user {
            user.clone()
        } else {
            let Ok(user) = who_am_i(client).await else { return };
            user["username"].as_str().unwrap_or_default().to_owned()
        };
        let namespace =
            Some(self.namespace.as_str()).filter(|it| self.is_namespaced && !it.is_empty());
        if let Some(namespace) = namespace
            && let Ok(None) = get::<Value>(&connection.client, &namespace_path(namespace)).await
        {
            return print_note(&format!("there is no namespace {namespace:?}"));
        }
        let refused = Refused { user: &user, verb: &self.verb, action: &self.action, namespace };
        if let Some(suggestion) = suggest(&connection.client, &refused).await {
            print_note(&suggestion);
        }
    }
}

/// Warns of a verb that is not one of the known ones.
fn is_known_verb(verb: &str, known: &[&str]) -> bool {
    let is_known = known.contains(&verb);
    if !is_known {
        warn(&format!("verb '{verb}' is not a known verb"));
    }
    is_known
}

fn namespace_path(name: &str) -> String {
    format!("/api/v1/namespaces/{}", utf8_percent_encode(name, NON_ALPHANUMERIC))
}

/// The group and the plural of a resource, whether it is namespaced, and whether the server has it. A
/// word that the server does not know is asked for as it is, with a warning.
async fn resolve(client: &Client, word: &str) -> Result<(String, String, bool, bool)> {
    if let Some(found) = find_resource(client, word).await.map_err(explain)? {
        return Ok((found.group, found.resource, found.is_namespaced, true));
    }
    let is_known = ["users", "groups"].contains(&word);
    if !is_known {
        let lower = word.to_lowercase();
        let (resource, group) = lower.split_once('.').unwrap_or((&lower, ""));
        let place = if group.is_empty() { String::new() } else { format!(" in group '{group}'") };
        warn(&format!("the server doesn't have a resource type '{resource}'{place}"));
    }
    Ok((String::new(), word.to_owned(), true, is_known))
}

/// Prints a warning as kubectl does: an empty line follows.
fn warn(text: &str) {
    print_note(&format!("Warning: {text}\n"));
}

/// Prints what is allowed in a namespace.
async fn list(client: &Client, namespace: &str, no_headers: bool) -> Result<()> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let reviewed: Value = create(client, path, &review).await.map_err(explain)?;
    let status = &reviewed["status"];
    if status["incomplete"] == true {
        let reason = status["evaluationError"].as_str().unwrap_or_default();
        print_note(&format!("Warning: the list may be incomplete: {reason}"));
    }
    let mut rows = rules::rows(status);
    if !no_headers {
        let title = ["Resources", "Non-Resource URLs", "Resource Names", "Verbs"];
        rows.insert(0, title.map(str::to_owned).to_vec());
    }
    print(aligned(&rows).as_bytes())
}
