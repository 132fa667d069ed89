//! `sampan install` and `sampan uninstall`: the CRDs of the project in a cluster.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::cluster::{Cluster, ClusterArgs};
use crate::crd_check::{crd_path, incompatibilities};
use crate::deployment::{kind_of, name_of};
use crate::manifests::printed_manifests;
use crate::output::Output;
use crate::project_args::BuildArgs;
use keel::Clock;
use machinery::Value;

/// The longest wait until a CRD is served.
const LIMIT: Duration = Duration::from_mins(1);

const INSTALL_EXAMPLES: &str = "Examples:
  sampan install
  sampan install --context staging";

/// Applies the CRDs of the project to a cluster
///
/// Before a changed CRD is applied, the stored objects are validated with its new schemas. If it
/// refuses one of them, nothing is changed.
#[derive(Debug, clap::Args)]
#[command(after_help = INSTALL_EXAMPLES)]
pub struct InstallArgs {
    /// Apply also CRDs that refuse stored objects
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub build: BuildArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub cluster: ClusterArgs,
}

/// Deletes the CRDs of the project from a cluster
///
/// With a CRD, the server deletes all of its objects: as long as there are any, this needs --force.
#[derive(Debug, clap::Args)]
pub struct UninstallArgs {
    /// Delete the objects as well
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub build: BuildArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub cluster: ClusterArgs,
}

impl InstallArgs {
    /// Applies the CRDs.
    pub async fn run(&self, output: &mut Output<'_>) -> Result<()> {
        let crds = crds_of(&self.build)?;
        install(&self.cluster.connect().await?, &crds, self.force, output).await
    }
}

impl UninstallArgs {
    /// Deletes the CRDs.
    pub async fn run(&self, output: &mut Output<'_>) -> Result<()> {
        let crds = crds_of(&self.build)?;
        uninstall(&self.cluster.connect().await?, &crds, self.force, output).await
    }
}

fn crds_of(build: &BuildArgs) -> Result<Vec<Value>> {
    let (project, cargo) = build.find()?;
    let mut crds = printed_manifests(&cargo, &project.namespace())?;
    crds.retain(|it| kind_of(it) == "CustomResourceDefinition");
    if crds.is_empty() {
        bail!("the project has no kinds: add one with `sampan create api`");
    }
    Ok(crds)
}

/// Applies all CRDs if their schemas accept the stored objects, and waits until they are served.
pub(crate) async fn install(
    cluster: &Cluster,
    crds: &[Value],
    force: bool,
    output: &mut Output<'_>,
) -> Result<()> {
    let mut refusals = Vec::new();
    for crd in crds {
        let Some(present) = cluster.get(&crd_path(crd)).await? else { continue };
        let problems = incompatibilities(cluster, &present, crd).await?;
        refusals.extend(problems.iter().map(|problem| format!("{}: {problem}", name_of(crd))));
    }
    if !refusals.is_empty() {
        let list = refusals.join("\n  ");
        if !force {
            bail!(
                "the changed CRDs refuse objects that are stored:\n  {list}\nNothing was applied. \
                 Correct the objects or the types, or apply the CRDs nevertheless with --force"
            );
        }
        output.note(&format!("the changed CRDs refuse objects that are stored:\n  {list}"));
    }
    for crd in crds {
        cluster.apply(crd).await?;
        wait_until_served(cluster, crd).await?;
        output.line(&format!("customresourcedefinition/{} applied", name_of(crd)))?;
    }
    Ok(())
}

async fn wait_until_served(cluster: &Cluster, crd: &Value) -> Result<()> {
    let clock = Clock::system();
    let start = clock.instant();
    loop {
        let found = cluster.get(&crd_path(crd)).await?.unwrap_or_default();
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition = |kind: &str| conditions.iter().find(|it| it["type"] == kind);
        if condition("Established").is_some_and(|it| it["status"] == "True") {
            return Ok(());
        }
        if let Some(refused) = condition("NamesAccepted").filter(|it| it["status"] == "False") {
            bail!("the names of {} clash: {}", name_of(crd), refused["message"]);
        }
        if clock.elapsed_since(&start) > LIMIT {
            bail!("{} is not served after {} s", name_of(crd), LIMIT.as_secs());
        }
        clock.sleep(Duration::from_millis(50)).await;
    }
}

/// Deletes all CRDs, if there are no objects.
pub(crate) async fn uninstall(
    cluster: &Cluster,
    crds: &[Value],
    force: bool,
    output: &mut Output<'_>,
) -> Result<()> {
    let mut names = Vec::new();
    for crd in crds {
        let Some(present) = cluster.get(&crd_path(crd)).await? else { continue };
        let spec = &present["spec"];
        let versions = spec["versions"].as_array().into_iter().flatten();
        let Some(version) = versions.into_iter().find(|it| it["served"] == true) else { continue };
        let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let plural = part(&spec["names"]["plural"]);
        let path = format!("/apis/{}/{}/{plural}", part(&spec["group"]), part(&version["name"]));
        let objects = cluster.list(&path).await?;
        names.extend(objects.iter().map(|object| format!("{plural}/{}", name_of(object))));
    }
    if !names.is_empty() && !force {
        let shown = names.iter().take(20).cloned().collect::<Vec<_>>().join(", ");
        bail!(
            "{} objects would be deleted with their CRDs: {shown}. Nothing was deleted. Delete them \
             first, or add --force",
            names.len()
        );
    }
    for crd in crds {
        let state = if cluster.delete(crd).await? { "deleted" } else { "not found" };
        output.line(&format!("customresourcedefinition/{} {state}", name_of(crd)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;
    use testenv::TestEnv;

    /// A CRD whose objects have a `size` of at least `minimum`.
    fn crd(minimum: u32) -> Value {
        let spec = json!({"type": "object", "properties": {"size": {
            "type": "integer", "minimum": minimum,
        }}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "boats.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": spec}},
                }}],
            },
        })
    }

    const BOATS: &str = "/apis/example.com/v1/namespaces/default/boats";

    fn boat(name: &str, size: u32) -> Value {
        json!({
            "apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": name},
            "spec": {"size": size},
        })
    }

    /// The output of a command, or its error.
    async fn run(
        command: impl AsyncFnOnce(&mut Output<'_>) -> Result<()>,
    ) -> Result<String, String> {
        let (mut results, mut notes) = (Vec::new(), Vec::new());
        let done = command(&mut Output::new(&mut results, &mut notes)).await;
        done.map_err(|error| format!("{error:#}"))?;
        results.extend(notes);
        Ok(String::from_utf8(results).unwrap())
    }

    #[tokio::test]
    async fn a_crd_that_refuses_stored_objects_is_applied_only_by_force() {
        let env = TestEnv::start().await;
        let cluster = Cluster::of(env.kube());
        let install_with = async |minimum, force| {
            run(async |output| install(&cluster, &[crd(minimum)], force, output).await).await
        };
        let applied = "customresourcedefinition/boats.example.com applied\n";
        assert_eq!(install_with(1, false).await.unwrap(), applied);
        env.create(BOATS, &boat("small", 1)).await;
        env.create(BOATS, &boat("large", 9)).await;
        assert_eq!(install_with(1, false).await.unwrap(), applied);

        let refused = install_with(5, false).await.unwrap_err();
        assert!(refused.contains("default/small (v1): spec.size: Invalid value: 1"), "{refused}");
        assert!(refused.contains("--force") && !refused.contains("large"), "{refused}");
        let minimum =
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/minimum";
        let path = crd_path(&crd(1));
        assert_eq!(env.read(&path).await.pointer(minimum), Some(&json!(1)));
        assert!(install_with(5, true).await.unwrap().contains("default/small"));
        assert_eq!(env.read(&path).await.pointer(minimum), Some(&json!(5)));
        env.stop().await.unwrap();
    }

    #[tokio::test]
    async fn a_version_with_stored_objects_stays() {
        let env = TestEnv::start().await;
        let cluster = Cluster::of(env.kube());
        run(async |output| install(&cluster, &[crd(1)], false, output).await).await.unwrap();
        let mut next = crd(1);
        next["spec"]["versions"][0]["name"] = json!("v2");
        let refused = run(async |output| install(&cluster, &[next], false, output).await).await;
        let refused = refused.unwrap_err();
        assert!(refused.contains("stored in version v1"), "{refused}");
        env.stop().await.unwrap();
    }

    #[tokio::test]
    async fn crds_with_objects_are_deleted_only_by_force() {
        let env = TestEnv::start().await;
        let cluster = Cluster::of(env.kube());
        run(async |output| install(&cluster, &[crd(1)], false, output).await).await.unwrap();
        env.create(BOATS, &boat("small", 1)).await;
        let uninstall_with = async |force| {
            run(async |output| uninstall(&cluster, &[crd(1)], force, output).await).await
        };
        let refused = uninstall_with(false).await.unwrap_err();
        assert!(
            refused.contains("1 objects would be deleted with their CRDs: boats/small"),
            "{refused}"
        );
        let deleted = "customresourcedefinition/boats.example.com deleted\n";
        assert_eq!(uninstall_with(true).await.unwrap(), deleted);
        env.stop().await.unwrap();
    }
}
