//! The forms in which manifests are printed: YAML documents, a Kustomize folder or a Helm chart.

use machinery::codec::yaml;
use machinery::{Value, json};

use crate::deployment::{kind_of, name_of};

/// The form of manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// YAML documents
    Yaml,
    /// A folder with a kustomization.yaml
    Kustomize,
    /// A Helm chart
    Helm,
}

/// What a chart needs beside the objects.
pub(crate) struct Chart<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) image: &'a str,
}

/// The objects as YAML documents.
pub(crate) fn documents(objects: &[Value]) -> String {
    objects.iter().map(yaml::encode).collect::<Vec<_>>().join("---\n")
}

/// A file for each object, and the list of them.
pub(crate) fn kustomize(objects: &[Value], chart: &Chart<'_>) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> =
        objects.iter().map(|object| (file_name(object), yaml::encode(object))).collect();
    let (image, field, version) = split_image(chart.image);
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": names,
        "images": [{"name": image, "newName": image, field: version}],
    });
    files.push(("kustomization.yaml".to_owned(), yaml::encode(&kustomization)));
    files
}

/// A chart: the CRDs, and templates whose namespace and image are values. The namespace itself is made
/// by `helm install --create-namespace`.
pub(crate) fn helm(objects: &[Value], chart: &Chart<'_>) -> Vec<(String, String)> {
    let description = format!("The operator {}", chart.name);
    let about = json!({
        "apiVersion": "v2", "name": chart.name, "version": chart.version,
        "appVersion": chart.version, "type": "application", "description": description,
    });
    let values = json!({"image": chart.image, "replicas": 1});
    let mut files = vec![
        ("Chart.yaml".to_owned(), yaml::encode(&about)),
        ("values.yaml".to_owned(), yaml::encode(&values)),
    ];
    for object in objects {
        match kind_of(object) {
            "Namespace" => {}
            // A CRD with a conversion names the namespace; a chart installs `crds/` without values.
            "CustomResourceDefinition" if object.pointer("/spec/conversion/webhook").is_none() => {
                files.push((format!("crds/{}", file_name(object)), yaml::encode(object)));
            }
            _ => {
                let template = template(object.clone(), chart);
                files.push((format!("templates/{}", file_name(object)), template));
            }
        }
    }
    files
}

/// The object as a template of Helm.
fn template(mut object: Value, chart: &Chart<'_>) -> String {
    const NAMESPACE: &str = "SAMPAN-NAMESPACE";
    const REPLICAS: &str = "SAMPAN-REPLICAS";
    const IMAGE: &str = "SAMPAN-IMAGE";
    replace_namespace(&mut object, chart.namespace, NAMESPACE);
    if kind_of(&object) == "Deployment" {
        object["spec"]["replicas"] = json!(REPLICAS);
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(IMAGE);
    }
    // Braces in descriptions and rules are no actions of the template.
    let text = yaml::encode(&object).replace("{{", "{{ \"{{\" }}");
    text.replace(NAMESPACE, "{{ .Release.Namespace }}")
        .replace(REPLICAS, "{{ .Values.replicas }}")
        .replace(IMAGE, "{{ .Values.image | quote }}")
}

/// Replaces the namespace in the metadata, the references and the services of an object.
pub(crate) fn replace_namespace(value: &mut Value, old: &str, new: &str) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if name == "namespace" && field == old {
                    *field = json!(new);
                } else {
                    replace_namespace(field, old, new);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|it| replace_namespace(it, old, new)),
        _ => {}
    }
}

fn file_name(object: &Value) -> String {
    match kind_of(object) {
        "CustomResourceDefinition" => format!("{}.yaml", name_of(object)),
        kind => format!("{}.yaml", kind.to_lowercase()),
    }
}

/// The name of an image, and the field and the value of Kustomize that choose its version: the digest,
/// or else the tag.
fn split_image(image: &str) -> (&str, &str, &str) {
    let (tagged, digest) = match image.split_once('@') {
        Some((tagged, digest)) => (tagged, Some(digest)),
        None => (image, None),
    };
    let (name, tag) = match tagged.rsplit_once(':') {
        // The colon of a port is before a slash.
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (tagged, "latest"),
    };
    match digest {
        Some(digest) => (name, "digest", digest),
        None => (name, "newTag", tag),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_a_name_and_a_tag_or_a_digest() {
        let name = "mock.com:5000/a";
        assert_eq!(split_image("mock.com:5000/a:v1"), (name, "newTag", "v1"));
        assert_eq!(split_image("mock.com:5000/a"), (name, "newTag", "latest"));
        for image in ["mock.com:5000/a:v1@sha256:0", "mock.com:5000/a@sha256:0"] {
            assert_eq!(split_image(image), (name, "digest", "sha256:0"));
        }
    }

    #[test]
    fn a_template_of_helm_has_values_and_no_other_actions() {
        let deployment = json!({
            "kind": "Deployment", "metadata": {"namespace": "ns", "annotations": {"a": "{{b}}"}},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"image": "i"}]}}},
        });
        let chart = Chart { name: "a", version: "1", namespace: "ns", image: "i" };
        let text = template(deployment, &chart);
        for part in [
            "namespace: {{ .Release.Namespace }}\n",
            "replicas: {{ .Values.replicas }}\n",
            "image: {{ .Values.image | quote }}\n",
            "{{ \"{{\" }}b}}",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
