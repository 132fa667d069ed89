//! [`find_resource`]: the resource that a word means: its plural, singular or short name, with a group
//! and a version if the word has them.

use kube_client::Client;

use client::json_requests::get;
use machinery::Value;

/// A resource of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural.
    pub resource: String,
    /// Whether its objects are in namespaces.
    pub is_namespaced: bool,
}

/// Finds a resource by `deployments`, `deploy`, `deployments.apps` or `deployments.v1.apps`. Of several
/// groups the core group comes first, then the server's order.
pub(super) async fn find_resource(
    client: &Client,
    word: &str,
) -> Result<Option<Found>, kube_client::Error> {
    let word = word.to_lowercase();
    let (resource, group) = word.split_once('.').unwrap_or((&word, ""));
    // The first part may be a version, or a part of the group.
    let groups = [Some(group), group.split_once('.').map(|(_, it)| it)];
    let is_asked = |it: &str| group.is_empty() || groups.contains(&Some(it));
    if is_asked("") || group == "v1" {
        let listed: Option<Value> = get(client, "/api/v1").await?;
        if let Some(found) = listed.and_then(|it| find(&it, "", resource)) {
            return Ok(Some(found));
        }
    }
    let listed: Option<Value> = get(client, "/apis").await?;
    for item in listed.iter().filter_map(|it| it["groups"].as_array()).flatten() {
        let Some(name) = item["name"].as_str().filter(|it| is_asked(it)) else { continue };
        let Some(version) = item["preferredVersion"]["groupVersion"].as_str() else { continue };
        // A group whose server does not answer is passed over.
        let listed: Option<Value> = get(client, &format!("/apis/{version}")).await.ok().flatten();
        if let Some(found) = listed.and_then(|it| find(&it, name, resource)) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Finds a resource in the list of a group and version.
fn find(list: &Value, group: &str, word: &str) -> Option<Found> {
    let mut resources = list["resources"].as_array()?.iter();
    let found = resources.find(|it| {
        let mut short = it["shortNames"].as_array().into_iter().flatten();
        it["name"] == word
            || it["singularName"] == word
            || short.any(|it| it == word)
            || it["kind"].as_str().is_some_and(|kind| {
                kind.to_lowercase() == word
                    && it["name"].as_str().is_some_and(|it| !it.contains('/'))
            })
    })?;
    Some(Found {
        group: group.to_owned(),
        resource: found["name"].as_str()?.to_owned(),
        is_namespaced: found["namespaced"] == true,
    })
}
