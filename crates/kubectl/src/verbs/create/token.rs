//! `create token`: a bearer token of a service account.

use std::time::Duration;

use crate::error::Error;
use crate::global::parse_timeout;
use crate::io::Io;
use crate::mutation;
use crate::print::object::{ordered_json, to_yaml};
use crate::session::Session;
use machinery::fields::text;
use machinery::json;

/// Request a token of a service account
#[derive(Debug, clap::Args)]
pub(super) struct TokenArgs {
    /// Name of the service account
    name: String,
    /// Audience of the token; repeat it for more
    #[arg(long, value_name = "NAME")]
    audience: Vec<String>,
    /// Lifetime that is asked for; the server may choose another one
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    duration: Option<Duration>,
    /// Kind of an object with whose deletion the token ends: Pod, Secret or Node
    #[arg(long, value_name = "KIND", requires = "bound_object_name")]
    bound_object_kind: Option<String>,
    /// Name of that object
    #[arg(long, value_name = "NAME", requires = "bound_object_kind")]
    bound_object_name: Option<String>,
    /// UID of that object
    #[arg(long, value_name = "UID", requires = "bound_object_kind")]
    bound_object_uid: Option<String>,
    /// Output format: json or yaml
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<String>,
}

impl TokenArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let mut spec = json!({"audiences": self.audience});
        if let Some(duration) = self.duration.filter(|it| !it.is_zero()) {
            spec["expirationSeconds"] = duration.as_secs().into();
        }
        if let (Some(kind), Some(name)) = (&self.bound_object_kind, &self.bound_object_name) {
            spec["boundObjectRef"] = json!({"kind": kind, "apiVersion": "v1", "name": name});
            if let Some(uid) = &self.bound_object_uid {
                spec["boundObjectRef"]["uid"] = uid.as_str().into();
            }
        }
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        let (namespace, name) = (&session.namespace, &self.name);
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let created = mutation::create(session, &path, &[], &request).await;
        let created = created.map_err(|error| match error {
            Error::Server(status) => {
                Error::message(format!("failed to create token: {}", status.message))
            }
            error => error,
        })?;
        match self.output.as_deref() {
            None | Some("") => io.line(text(&created["status"], "token")),
            Some("json") => io.print(&ordered_json(&created)),
            Some("yaml") => io.print(&to_yaml(&created)),
            Some(other) => {
                Err(Error::message(format!("--output {other} is not available: json or yaml")))
            }
        }
    }
}
