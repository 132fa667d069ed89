//! CRDs and their example objects, and the evaluations of their rules.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use machinery::codec::yaml;
use machinery::{ErrorList, Map, Value};
use schema::Structural;

const RULES: &str = "x-kubernetes-validations";

/// The schema of one version, and its examples.
pub struct Case {
    pub schema: Value,
    pub objects: Vec<Map<String, Value>>,
}

/// A rule and a value that it is evaluated on.
pub struct Evaluation {
    pub rule: String,
    pub value: Value,
}

/// All versions of the CRDs, with the examples that satisfy their rules.
pub fn read(folder: &Path) -> Vec<Case> {
    let mut cases = Vec::new();
    for project in files(folder).into_iter().filter(|it| it.is_dir()) {
        for file in files(&project.join("crds")) {
            let crd = load(&file);
            let spec = &crd["spec"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (kind, group) = (text(&spec["names"]["kind"]), text(&spec["group"]));
            let examples = files(&project.join("examples").join(format!("{kind}.{group}")));
            for version in spec["versions"].as_array().into_iter().flatten() {
                let mut schema = version["schema"]["openAPIV3Schema"].clone();
                for_each_rule_list(&mut schema, &mut |rules| {
                    rules.retain(|it| !rule(it).contains("oldSelf"));
                });
                let api_version = format!("{group}/{}", text(&version["name"]));
                let objects = examples.iter().map(|it| load(it));
                let objects = objects.filter(|it| it["apiVersion"] == *api_version);
                let objects = valid(&schema, objects);
                cases.push(Case { schema, objects });
            }
        }
    }
    cases
}

/// The objects with their defaults, without those that violate a rule.
fn valid(schema: &Value, objects: impl Iterator<Item = Value>) -> Vec<Map<String, Value>> {
    let structural = Structural::compile(schema);
    let mut valid = Vec::new();
    for object in objects {
        let Value::Object(mut object) = object else { continue };
        structural.prune(&mut object, &mut Vec::new());
        structural.default(&mut object);
        let mut errors = ErrorList::new();
        structural.validate_rules(&object, None, &mut errors);
        if errors.is_empty() {
            valid.push(object);
        }
    }
    valid
}

/// The rules of a schema.
pub fn rules(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for_each_rule_list(&mut schema.clone(), &mut |rules| {
        found.extend(rules.iter().map(|it| rule(it).to_owned()));
    });
    found
}

/// Removes all other rules from a schema.
pub fn retain_rules(schema: &mut Value, retained: &BTreeSet<String>) {
    for_each_rule_list(schema, &mut |rules| rules.retain(|it| retained.contains(rule(it))));
}

impl Case {
    /// Every evaluation that the objects need.
    pub fn evaluations(&self) -> Vec<Evaluation> {
        let mut evaluations = Vec::new();
        for object in &self.objects {
            descend(&self.schema, &Value::Object(object.clone()), &mut evaluations);
        }
        evaluations
    }
}

fn descend(schema: &Value, value: &Value, evaluations: &mut Vec<Evaluation>) {
    for it in schema[RULES].as_array().into_iter().flatten() {
        evaluations.push(Evaluation { rule: rule(it).to_owned(), value: value.clone() });
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let property = schema["properties"].get(name);
                descend(property.unwrap_or(&schema["additionalProperties"]), value, evaluations);
            }
        }
        Value::Array(values) => {
            values.iter().for_each(|it| descend(&schema["items"], it, evaluations))
        }
        _ => {}
    }
}

fn rule(rule: &Value) -> &str {
    rule["rule"].as_str().unwrap_or_default()
}

fn for_each_rule_list(schema: &mut Value, f: &mut dyn FnMut(&mut Vec<Value>)) {
    let Value::Object(schema) = schema else { return };
    for (keyword, value) in schema {
        match (keyword.as_str(), value) {
            (RULES, Value::Array(rules)) => f(rules),
            ("properties", Value::Object(properties)) => {
                properties.values_mut().for_each(|it| for_each_rule_list(it, f));
            }
            ("items" | "additionalProperties", inner) => for_each_rule_list(inner, f),
            _ => {}
        }
    }
}

fn load(file: &Path) -> Value {
    let text = fs::read(file).expect("the file can be read");
    yaml::decode(&text).map_or(Value::Null, |it| it.value)
}

/// The paths in a folder, sorted; none if the folder does not exist.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|it| it.path()).collect();
    paths.sort();
    paths
}
