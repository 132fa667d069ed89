//! [`incompatibilities`]: what a changed CRD would break: stored objects that its schema refuses, and
//! stored versions that it does not have.

use anyhow::Result;

use crate::cluster::Cluster;
use crate::deployment::name_of;
use machinery::{ErrorList, Value};
use schema::Structural;

/// The largest number of objects that are named.
const MAX_NAMED: usize = 20;

/// A line for each stored object that a changed CRD would not accept; none if the CRD is new or its
/// schemas are the same.
pub(crate) async fn incompatibilities(
    cluster: &Cluster,
    present: &Value,
    wanted: &Value,
) -> Result<Vec<String>> {
    if present["spec"]["versions"] == wanted["spec"]["versions"] {
        return Ok(Vec::new());
    }
    let mut problems = lost_versions(present, wanted);
    // Objects in the stored version are read without a conversion webhook, which may not be served.
    for now in versions(present).filter(|it| it["storage"] == true && it["served"] == true) {
        let name = &now["name"];
        let Some(version) = versions(wanted).find(|it| it["name"] == *name) else { continue };
        if now["schema"] == version["schema"] {
            continue;
        }
        let schema = Structural::compile(&version["schema"]["openAPIV3Schema"]);
        let path = format!(
            "/apis/{}/{}/{}",
            text(&wanted["spec"]["group"]),
            text(name),
            text(&wanted["spec"]["names"]["plural"])
        );
        for object in cluster.list(&path).await? {
            problems.extend(problem(&schema, &object, text(name)));
        }
    }
    if problems.len() > MAX_NAMED {
        let others = problems.len() - MAX_NAMED;
        problems.truncate(MAX_NAMED);
        problems.push(format!("and {others} more"));
    }
    Ok(problems)
}

/// The stored versions that the CRD no longer has.
fn lost_versions(present: &Value, wanted: &Value) -> Vec<String> {
    let stored = present["status"]["storedVersions"].as_array().into_iter().flatten();
    let lost = stored.filter(|stored| !versions(wanted).any(|it| it["name"] == **stored));
    lost.map(|version| {
        format!("objects are stored in version {}, which the new CRD does not have", text(version))
    })
    .collect()
}

/// The first error of an object.
fn problem(schema: &Structural, object: &Value, version: &str) -> Option<String> {
    let mut object = object.as_object()?.clone();
    let mut errors = ErrorList::new();
    schema.default(&mut object);
    schema.validate(&object, None, &mut errors);
    // Without an old object there are no warnings about values that have not changed.
    let _ = schema.validate_rules(&object, None, &mut errors);
    let error = errors.iter().next()?.to_string();
    let metadata = &object["metadata"];
    let name = match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{}", text(&metadata["name"])),
        None => text(&metadata["name"]).to_owned(),
    };
    Some(format!("{name} ({version}): {error}"))
}

fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    crd["spec"]["versions"].as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The path of a CRD.
pub(crate) fn crd_path(crd: &Value) -> String {
    format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", name_of(crd))
}
