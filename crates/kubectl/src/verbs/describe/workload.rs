//! Deployments, with their replica sets.

use super::pod::pod_template;
use super::sheet::{Sheet, conditions, date};
use crate::error::Error;
use crate::print::template::plain_text;
use crate::session::Session;
use machinery::Value;
use machinery::fields::{flag, list, number, text};

/// The replica sets of a deployment.
pub(super) async fn replica_sets(session: &Session, object: &Value) -> Result<Vec<Value>, Error> {
    let metadata = &object["metadata"];
    let namespace = text(metadata, "namespace");
    let path = format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
    let found = match session.get(&path).await {
        Err(Error::Server(_)) => return Ok(Vec::new()),
        found => found?,
    };
    let is_owned = |it: &&Value| {
        let owners = list(&it["metadata"], "ownerReferences");
        owners
            .iter()
            .any(|owner| text(owner, "uid") == text(metadata, "uid") && flag(owner, "controller"))
    };
    Ok(list(&found, "items").iter().filter(is_owned).cloned().collect())
}

/// Describes a deployment; whether its events are wanted.
pub(super) fn deployment(sheet: &mut Sheet, object: &Value, sets: &[Value]) -> bool {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    sheet.field(0, "Name", text(metadata, "name"));
    sheet.field(0, "Namespace", text(metadata, "namespace"));
    sheet.field(0, "CreationTimestamp", &date(text(metadata, "creationTimestamp")));
    sheet.labels("Labels", &metadata["labels"]);
    sheet.annotations("Annotations", &metadata["annotations"]);
    sheet.field(0, "Selector", &selector(&spec["selector"]));
    let count = |field| number(status, field);
    let replicas = format!(
        "{} desired | {} updated | {} total | {} available | {} unavailable",
        number(spec, "replicas"),
        count("updatedReplicas"),
        count("replicas"),
        count("availableReplicas"),
        count("unavailableReplicas")
    );
    sheet.field(0, "Replicas", &replicas);
    let strategy = &spec["strategy"];
    sheet.field(0, "StrategyType", text(strategy, "type"));
    sheet.field(0, "MinReadySeconds", &number(spec, "minReadySeconds").to_string());
    let rolling = &strategy["rollingUpdate"];
    if rolling.is_object() {
        let amount = |field: &str| plain_text(&rolling[field]);
        let (unavailable, surge) = (amount("maxUnavailable"), amount("maxSurge"));
        let text = format!("{unavailable} max unavailable, {surge} max surge");
        sheet.field(0, "RollingUpdateStrategy", &text);
    }
    pod_template(sheet, &spec["template"]);
    conditions(sheet, object);
    let revision = text(&metadata["annotations"], REVISION);
    let is_new = |it: &&Value| text(&it["metadata"]["annotations"], REVISION) == revision;
    let (new, old): (Vec<&Value>, Vec<&Value>) = sets.iter().partition(is_new);
    if !sets.is_empty() {
        sheet.field(0, "OldReplicaSets", &sets_text(&old));
        sheet.field(0, "NewReplicaSet", &sets_text(&new));
    }
    true
}

/// The annotation with the revision of a deployment's pods.
const REVISION: &str = "deployment.kubernetes.io/revision";

fn sets_text(sets: &[&Value]) -> String {
    let shown: Vec<String> = sets
        .iter()
        .map(|it| {
            let wanted = number(&it["spec"], "replicas");
            let (name, found) = (text(&it["metadata"], "name"), number(&it["status"], "replicas"));
            format!("{name} ({found}/{wanted} replicas created)")
        })
        .collect();
    if shown.is_empty() { "<none>".to_owned() } else { shown.join(", ") }
}

/// A label selector in a line.
pub(super) fn selector(selector: &Value) -> String {
    let shown = types::columns::selector(selector);
    if shown.is_empty() { "<none>".to_owned() } else { shown }
}
