//! [`read_file`], [`read_input`] and [`read_cluster`]: the CRDs that types are generated for.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::Result;

use super::definition::Definition;
use super::error::GenerateError;
use crate::cluster::Cluster;
use machinery::Value;
use machinery::codec::yaml;

/// The largest input, in MiB. A server refuses a request that is larger than 3 MiB.
const LIMIT: u64 = 64;

const MEBIBYTE: u64 = 1024 * 1024;

/// The CRDs in a file.
pub(crate) fn read_file(path: &Path) -> Result<Vec<Definition>, GenerateError> {
    let source_name = path.display().to_string();
    let file = File::open(path)
        .map_err(|cause| GenerateError::Read { source_name: source_name.clone(), cause })?;
    read(source_name, file)
}

/// The CRDs in the input of the command.
pub(crate) fn read_input(input: &mut dyn Read) -> Result<Vec<Definition>, GenerateError> {
    read("the standard input".to_owned(), input)
}

/// A CRD of a server.
pub(crate) async fn read_cluster(cluster: &Cluster, name: &str) -> Result<Definition> {
    let is_allowed = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '.';
    if !name.contains('.') || !name.chars().all(is_allowed) {
        return Err(GenerateError::CrdName { name: name.to_owned() }.into());
    }
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    match cluster.get(&path).await? {
        Some(crd) => Ok(Definition::parse(&crd)?),
        None => Err(GenerateError::UnknownCrd { name: name.to_owned() }.into()),
    }
}

fn read(source_name: String, input: impl Read) -> Result<Vec<Definition>, GenerateError> {
    let mut bytes = Vec::new();
    let read = input.take(LIMIT * MEBIBYTE + 1).read_to_end(&mut bytes);
    if let Err(cause) = read {
        return Err(GenerateError::Read { source_name, cause });
    }
    if bytes.len() as u64 > LIMIT * MEBIBYTE {
        return Err(GenerateError::TooLarge { source_name, limit: LIMIT });
    }
    let Ok(text) = String::from_utf8(bytes) else {
        let problem = io::Error::from(io::ErrorKind::InvalidData).to_string();
        return Err(GenerateError::NotYaml { source_name, problem });
    };
    let documents = match yaml::documents(&text) {
        Ok(documents) => documents,
        Err(error) => {
            return Err(GenerateError::NotYaml { source_name, problem: error.to_string() });
        }
    };
    definitions(source_name, documents.into_iter().map(|document| document.value))
}

/// The CRDs among objects, which may be lists.
fn definitions(
    source_name: String,
    documents: impl Iterator<Item = Value>,
) -> Result<Vec<Definition>, GenerateError> {
    let (mut definitions, mut others) = (Vec::new(), Vec::new());
    for object in documents.flat_map(items) {
        match object["kind"].as_str() {
            Some("CustomResourceDefinition") => definitions.push(Definition::parse(&object)?),
            Some(kind) => others.push(format!("a {kind}")),
            None => others.push("something that is no object of Kubernetes".to_owned()),
        }
    }
    if definitions.is_empty() {
        others.dedup();
        let found = if others.is_empty() { "nothing".to_owned() } else { others.join(", ") };
        return Err(GenerateError::NoCrd { source_name, found });
    }
    Ok(definitions)
}

/// The objects of a list, or the object itself.
fn items(mut object: Value) -> Vec<Value> {
    let is_list = object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match object.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items,
        _ => vec![object],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        read_input(&mut text.as_bytes()).unwrap_err().to_string()
    }

    const CRD: &str = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, \
        metadata: {name: sites.example.com}, spec: {group: example.com, scope: Cluster, \
        names: {kind: Site, plural: sites}, versions: [{name: v1, schema: {openAPIV3Schema: {}}}]}}";

    #[test]
    fn crds_are_found_among_other_objects_and_in_lists() {
        let text = format!("{{kind: Role}}\n---\n{{kind: List, items: [{CRD}]}}\n---\n{CRD}\n");
        let found = read_input(&mut text.as_bytes()).unwrap();
        let names: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["sites.example.com", "sites.example.com"]);
    }

    #[test]
    fn an_input_without_a_crd_says_what_is_in_it() {
        assert!(error("").contains("has no CustomResourceDefinition, but nothing"));
        assert!(error("kind: Role").contains("but a Role: name the file"));
        assert!(error("- a").contains("no object of Kubernetes"));
        assert!(error("a: [").contains("is neither YAML nor JSON"));
    }

    #[test]
    fn an_incomplete_crd_is_refused_with_the_missing_field() {
        let without = |old: &str, new: &str| error(&CRD.replace(old, new));
        assert!(without("k8s.io/v1,", "k8s.io/v1beta1,").contains("no longer accept"));
        assert!(without("kind: Site,", "").contains("no spec.names.kind"));
        assert!(without("group: example.com,", "").contains("no spec.group"));
        assert!(without("{openAPIV3Schema: {}}", "{}").contains("version v1 of sites.example.com"));
        let versions = "[{name: v1, schema: {openAPIV3Schema: {}}}]";
        assert!(without(versions, "[]").contains("no spec.versions"));
    }
}
