//! `clusterrole-aggregation-controller`: a `ClusterRole` with an aggregation rule has the rules of all
//! `ClusterRole`s that it selects.
//!
//! It reads `ClusterRole`s, and applies their `rules`. It needs the right to `escalate`, since it
//! writes rules that it does not have itself.
//!
//! Upstream: `pkg/controller/clusterroleaggregation`

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::ClusterRole;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api_requests;
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::metadata::Metadata;
use machinery::PolicyRule;
use machinery::selector::LabelSelector;
use runtime::informer::Item;
use runtime::{Action, Client, Controller, Failure, Lister, Mapper, Request};

/// The row of this controller in the table.
pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "clusterrole-aggregation-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("clusterrole-aggregation-controller"),
    rules: &[PolicyRule::new(
        &["rbac.authorization.k8s.io"],
        &["clusterroles"],
        &["escalate", "patch"],
    )],
    start,
};

/// The owner of the applied fields.
const FIELD_MANAGER: &str = "clusterrole-aggregation-controller";

/// Index of the roles that have an aggregation rule, all under the empty value.
const AGGREGATED_INDEX: &str = "aggregated";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleView {
    metadata: Metadata,
    #[serde(default)]
    rules: Option<Vec<Value>>,
    #[serde(default)]
    aggregation_rule: Option<AggregationRule>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct AggregationRule {
    cluster_role_selectors: Option<Vec<Value>>,
}

struct Context {
    client: Client,
    roles: Lister<RoleView>,
}

fn start(cx: &ControllerContext) {
    let roles = cx.manager.informer::<ClusterRole>();
    roles.indexer().add_index(AGGREGATED_INDEX, |role| {
        is_aggregated(role).then(String::new).into_iter().collect()
    });
    let context = Context { client: cx.client.clone(), roles: roles.lister() };
    let all = Arc::clone(roles.indexer());
    // Any role may be selected, before or after a change of its labels.
    let aggregated = Mapper::custom(move |_| {
        let roles = all.by_index(AGGREGATED_INDEX, "").unwrap_or_default();
        roles.iter().map(|role| role.key().clone()).collect()
    });
    let controller = Controller::for_::<ClusterRole>()
        .named(cx.name)
        .watches::<ClusterRole>(aggregated)
        .reconcile(reconcile, context);
    cx.manager.add(controller);
}

fn is_aggregated(role: &Item) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Role {
        #[serde(default)]
        aggregation_rule: Option<serde::de::IgnoredAny>,
    }
    role.decode::<Role>().is_ok_and(|role| role.aggregation_rule.is_some())
}

async fn reconcile(request: Request, cx: Arc<Context>) -> Result<Action, Failure> {
    let Some(role) = cx.roles.shared_key(&request)? else { return Ok(Action::Done) };
    let Some(aggregation) = &role.aggregation_rule else { return Ok(Action::Done) };
    let rules = cx.aggregated_rules(&role, aggregation)?;
    if role.rules.as_deref().unwrap_or_default() == rules {
        return Ok(Action::Done);
    }
    let name = &role.metadata.name;
    let configuration = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    });
    let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}");
    api_requests::apply(&cx.client, &path, FIELD_MANAGER, &configuration).await?;
    Ok(Action::Done)
}

impl Context {
    /// The rules of the roles that the rule selects, in the order of their names, each of them once.
    fn aggregated_rules(
        &self,
        role: &RoleView,
        aggregation: &AggregationRule,
    ) -> Result<Vec<Value>, Failure> {
        let mut roles = self.roles.indexer().list();
        roles.sort_by(|a, b| a.name().cmp(b.name()));
        let mut rules = Vec::new();
        for selector in aggregation.cluster_role_selectors.iter().flatten() {
            let selector = LabelSelector::from_value(selector).map_err(Failure::permanent)?;
            for other in roles.iter().filter(|other| other.is_selected_by(&selector)) {
                if other.name() == role.metadata.name {
                    continue;
                }
                let Some(other) = self.roles.get_key(other.key())? else { continue };
                for rule in other.rules.iter().flatten() {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
        }
        Ok(rules)
    }
}
