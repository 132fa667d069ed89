//! `apply --prune`: deletes what was applied before and is no longer in the manifests.

use std::collections::BTreeSet;

use http::Method;

use super::{ApplyArgs, LAST_APPLIED};
use crate::discovery::{ApiResource, Discovery};
use crate::error::Error;
use crate::io::Io;
use crate::lists::{ListOptions, objects};
use crate::mutation::{DryRun, Results};
use crate::session::{JSON, Session};
use crate::targets::Target;
use machinery::fields::text;
use machinery::{GroupVersion, Value, json};

/// The types that are deleted without an allow list.
const TYPES: [(&str, &str); 14] = [
    ("v1", "Namespace"),
    ("v1", "PersistentVolume"),
    ("v1", "ConfigMap"),
    ("v1", "Endpoints"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Pod"),
    ("v1", "ReplicationController"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("networking.k8s.io/v1", "Ingress"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
];
/// Further ones, which follow in kubectl's list.
const MORE_TYPES: [(&str, &str); 2] = [("apps/v1", "DaemonSet"), ("apps/v1", "ReplicaSet")];

/// See the [module documentation](self).
pub(super) struct Prune<'a> {
    pub session: &'a Session,
    pub args: &'a ApplyArgs,
    pub targets: &'a [Target],
    pub applied: &'a [Value],
}

impl Prune<'_> {
    pub(super) async fn run(&self, io: &mut Io, results: &mut Results) -> Result<(), Error> {
        let discovery = self.session.discovery().await?;
        let namespaces: BTreeSet<&str> =
            self.targets.iter().filter_map(|it| it.namespace.as_deref()).collect();
        let mut errors = Vec::new();
        for resource in self.resources(discovery)? {
            let places: Vec<Option<&str>> = match resource.is_namespaced {
                true => namespaces.iter().map(|it| Some(*it)).collect(),
                // A namespace that is given limits what is deleted to its objects.
                false if self.session.is_namespace_given => Vec::new(),
                false => vec![None],
            };
            for namespace in places {
                errors.extend(self.prune(io, results, resource, namespace).await.err());
            }
        }
        Error::all(errors)
    }

    fn resources<'d>(&self, discovery: &'d Discovery) -> Result<Vec<&'d ApiResource>, Error> {
        if self.args.prune_allowlist.is_empty() {
            let types = TYPES.iter().chain(&MORE_TYPES);
            return Ok(types.filter_map(|it| discovery.of_kind(it.0, it.1)).collect());
        }
        let mut resources = Vec::new();
        for entry in &self.args.prune_allowlist {
            let parts: Vec<&str> = entry.split('/').collect();
            let [group, version, kind] = parts[..] else {
                return Err(Error::message(format!(
                    "invalid GroupVersionKind format: {entry}, please follow <group/version/kind>"
                )));
            };
            let group = if group == "core" { "" } else { group };
            let api_version = GroupVersion::new(group, version).to_string();
            let found = discovery.of_kind(&api_version, kind).ok_or_else(|| {
                Error::message(format!("no matches for kind {kind:?} in version {api_version:?}"))
            })?;
            resources.push(found);
        }
        Ok(resources)
    }

    async fn prune(
        &self,
        io: &mut Io,
        results: &mut Results,
        resource: &ApiResource,
        namespace: Option<&str>,
    ) -> Result<(), Error> {
        let collection = Target {
            resource: resource.clone(),
            namespace: namespace.map(str::to_owned),
            name: None,
            manifest: None,
        };
        let selector = self.args.selector.iter().map(|it| ("labelSelector", it.clone()));
        let options = ListOptions { query: selector.collect(), ..ListOptions::default() };
        for object in objects(self.session, &collection, &options).await? {
            let metadata = &object["metadata"];
            let is_applied = metadata["annotations"][LAST_APPLIED].is_string();
            if !is_applied || self.is_kept(text(metadata, "uid")) {
                continue;
            }
            let target = Target::of_object(resource, &object);
            if self.args.mutation.dry_run() != DryRun::Client {
                let mut options = json!({"propagationPolicy": "Background"});
                if self.args.mutation.dry_run() == DryRun::Server {
                    options["dryRun"] = json!(["All"]);
                }
                self.session.write(Method::DELETE, &target.path(), JSON, &options).await?;
            }
            if !results.prints_objects() {
                results.print(io, &object, "pruned")?;
            }
        }
        Ok(())
    }

    fn is_kept(&self, uid: &str) -> bool {
        self.applied.iter().any(|it| text(&it["metadata"], "uid") == uid)
    }
}
