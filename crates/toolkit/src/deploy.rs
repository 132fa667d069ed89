//! `sampan deploy` and `sampan undeploy`: the operator in a cluster.

use anyhow::Result;

use crate::cluster::{Cluster, ClusterArgs};
use crate::deployment::{kind_of, name_of};
use crate::install::install;
use crate::manifests::DeploymentArgs;
use crate::output::Output;
use machinery::Value;

const EXAMPLES: &str = "Examples:
  sampan image push && sampan deploy
  sampan deploy --image mock.com:5000/operator-demo:v1
  kubectl rollout status deployment/operator-demo -n operator-demo-system";

/// Deploys the operator to a cluster: CRDs, roles, Deployment, webhooks
///
/// The objects are those of `sampan manifests`. The operator has leader election, and the rights that
/// it needs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DeployArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub deployment: DeploymentArgs,
    /// Apply also CRDs that refuse stored objects
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub cluster: ClusterArgs,
}

/// Removes the operator from a cluster, but not its CRDs and their objects
#[derive(Debug, clap::Args)]
pub struct UndeployArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub deployment: DeploymentArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub cluster: ClusterArgs,
}

impl DeployArgs {
    /// Applies the objects.
    pub async fn run(&self, output: &mut Output<'_>) -> Result<()> {
        let derived = self.deployment.derive(output)?;
        output.note(&format!("the image is {}", derived.image));
        let cluster = self.cluster.connect().await?;
        deploy(&cluster, &derived.objects, self.force, output).await?;
        output.note(&format!(
            "next: kubectl rollout status deployment/{} -n {}",
            derived.project.name, derived.namespace
        ));
        Ok(())
    }
}

impl UndeployArgs {
    /// Deletes the objects.
    pub async fn run(&self, output: &mut Output<'_>) -> Result<()> {
        let derived = self.deployment.derive_without_roles()?;
        undeploy(&self.cluster.connect().await?, &derived.objects, output).await?;
        output.note("the CRDs and their objects stay; `sampan uninstall` deletes them");
        Ok(())
    }
}

fn is_crd(object: &Value) -> bool {
    kind_of(object) == "CustomResourceDefinition"
}

fn shown(object: &Value) -> String {
    format!("{}/{}", kind_of(object).to_lowercase(), name_of(object))
}

pub(crate) async fn deploy(
    cluster: &Cluster,
    objects: &[Value],
    force: bool,
    output: &mut Output<'_>,
) -> Result<()> {
    let crds: Vec<Value> = objects.iter().filter(|it| is_crd(it)).cloned().collect();
    install(cluster, &crds, force, output).await?;
    for object in objects.iter().filter(|it| !is_crd(it)) {
        cluster.apply(object).await?;
        output.line(&format!("{} applied", shown(object)))?;
    }
    Ok(())
}

/// Deletes the objects in the opposite order, so that no webhook is left without its server.
pub(crate) async fn undeploy(
    cluster: &Cluster,
    objects: &[Value],
    output: &mut Output<'_>,
) -> Result<()> {
    for object in objects.iter().rev().filter(|it| !is_crd(it)) {
        let state = if cluster.delete(object).await? { "deleted" } else { "not found" };
        output.line(&format!("{} {state}", shown(object)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;
    use testenv::TestEnv;

    #[tokio::test]
    async fn objects_are_applied_in_order_and_deleted_in_the_opposite_one() {
        let env = TestEnv::start().await;
        let cluster = Cluster::of(env.kube());
        let objects = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}),
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": "a", "namespace": "ns"},
            }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "a"}, "rules": [],
            }),
        ];
        let (mut results, mut notes) = (Vec::new(), Vec::new());
        let mut output = Output::new(&mut results, &mut notes);
        deploy(&cluster, &objects, false, &mut output).await.unwrap();
        deploy(&cluster, &objects, false, &mut output).await.unwrap();
        undeploy(&cluster, &objects[1..], &mut output).await.unwrap();
        let applied = "namespace/ns applied\nserviceaccount/a applied\nclusterrole/a applied\n";
        let deleted = "clusterrole/a deleted\nserviceaccount/a deleted\n";
        let expected = format!("{applied}{applied}{deleted}");
        assert_eq!(String::from_utf8(results).unwrap(), expected);
        env.stop().await.unwrap();
    }
}
