//! Parses and validates a policy file, with the error messages of upstream.

use super::{GroupResources, Level, Policy, Rule, Stage, Stages};
use machinery::codec::yaml;
use machinery::field_path::quote;
use machinery::{ErrorList, Path, Value, names};

/// The only version of policies.
const API_VERSION: &str = "audit.k8s.io/v1";

/// The fields of a policy, of a rule and of the resources of a rule.
const POLICY_FIELDS: &[&str] =
    &["apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields"];
const RULE_FIELDS: &[&str] = &[
    "level",
    "users",
    "userGroups",
    "verbs",
    "resources",
    "namespaces",
    "nonResourceURLs",
    "omitStages",
    "omitManagedFields",
];
const RESOURCE_FIELDS: &[&str] = &["group", "resources", "resourceNames"];

/// See [`Policy::parse`].
pub(super) fn parse(text: &[u8]) -> Result<Policy, String> {
    let decoded = yaml::decode(text).map_err(|error| format!("failed decoding: {error}"))?;
    check_kind(&decoded.value)?;
    let mut reader = Reader { unknown: decoded.strict_errors(), ..Reader::default() };
    let policy = reader.policy(&decoded.value)?;
    if !reader.unknown.is_empty() {
        let fields = reader.unknown.join(", ");
        tracing::warn!(
            fields,
            "the audit policy contains unknown or repeated fields, which are ignored"
        );
    }
    if !reader.errors.is_empty() {
        return Err(reader.errors.summary());
    }
    if policy.rules.is_empty() {
        return Err("loaded illegal policy with 0 rules".to_owned());
    }
    Ok(policy)
}

fn check_kind(document: &Value) -> Result<(), String> {
    let text = |field: &str| document[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if kind.is_empty() {
        return Err("failed decoding: Object 'Kind' is missing in the policy".to_owned());
    }
    if version.is_empty() {
        return Err("failed decoding: Object 'apiVersion' is missing in the policy".to_owned());
    }
    if version != API_VERSION || kind != "Policy" {
        let (kind, version) = (quote(kind), quote(version));
        return Err(format!("failed decoding: no kind {kind} is registered for version {version}"));
    }
    Ok(())
}

/// Reads the fields of a policy, and collects errors and unknown fields.
#[derive(Default)]
struct Reader {
    errors: ErrorList,
    unknown: Vec<String>,
}

impl Reader {
    fn policy(&mut self, document: &Value) -> Result<Policy, String> {
        self.note_unknown("", document, POLICY_FIELDS);
        let omit_stages = self.stages(document, &Path::root("omitStages"), "omitStages")?;
        let omit_managed_fields = flag(document, "omitManagedFields")?.unwrap_or(false);
        let mut policy = Policy { rules: Vec::new(), omit_stages, omit_managed_fields };
        let rules = Path::root("rules");
        for (index, rule) in objects(document, "rules")?.iter().enumerate() {
            let rule = self.rule(rule, &rules.index(index), &policy)?;
            policy.rules.push(rule);
        }
        Ok(policy)
    }

    fn rule(&mut self, rule: &Value, path: &Path<'_>, policy: &Policy) -> Result<Rule, String> {
        self.note_unknown(&format!("{path}."), rule, RULE_FIELDS);
        let level = self.level(rule, &path.child("level"))?;
        let non_resource_urls = texts(rule, "nonResourceURLs")?;
        self.check_urls(&non_resource_urls, &path.child("nonResourceURLs"));
        let mut resources = Vec::new();
        for group in objects(rule, "resources")? {
            resources.push(self.group_resources(group, &path.child("resources"))?);
        }
        let omit_stages = self.stages(rule, &path.child("omitStages"), "omitStages")?;
        let namespaces = texts(rule, "namespaces")?;
        let has_resources = !resources.is_empty() || !namespaces.is_empty();
        if has_resources && !non_resource_urls.is_empty() {
            self.errors.invalid(
                &path.child("nonResourceURLs"),
                non_resource_urls.clone(),
                "rules cannot apply to both regular resources and non-resource URLs",
            );
        }
        let omit_managed_fields = flag(rule, "omitManagedFields")?;
        Ok(Rule {
            level,
            users: texts(rule, "users")?,
            user_groups: texts(rule, "userGroups")?,
            verbs: texts(rule, "verbs")?,
            resources,
            namespaces,
            non_resource_urls,
            omit_stages: omit_stages.union(policy.omit_stages),
            omit_managed_fields: omit_managed_fields.unwrap_or(policy.omit_managed_fields),
        })
    }

    fn level(&mut self, rule: &Value, path: &Path<'_>) -> Result<Level, String> {
        let text = text(rule, "level")?;
        let found = Level::ALL.into_iter().find(|it| it.as_str() == text);
        if found.is_none() && text.is_empty() {
            self.errors.required(path, "");
        } else if found.is_none() {
            self.errors.not_supported(path, text, &Level::ALL.map(Level::as_str));
        }
        Ok(found.unwrap_or(Level::None))
    }

    fn stages(&mut self, of: &Value, path: &Path<'_>, field: &str) -> Result<Stages, String> {
        let mut stages = Stages::default();
        for (index, text) in texts(of, field)?.into_iter().enumerate() {
            let Some(stage) = Stage::ALL.into_iter().find(|it| it.as_str() == text) else {
                let allowed = Stage::ALL.map(Stage::as_str).join(",");
                let detail = format!("allowed stages are {allowed}");
                self.errors.invalid(&path.index(index), text, &detail);
                continue;
            };
            stages.insert(stage);
        }
        Ok(stages)
    }

    fn check_urls(&mut self, urls: &[String], path: &Path<'_>) {
        for (index, url) in urls.iter().enumerate().filter(|(_, url)| *url != "*") {
            if !url.starts_with('/') {
                let detail = "non-resource URL rules must begin with a '/' character";
                self.errors.invalid(&path.index(index), url.as_str(), detail);
            }
            if url.find('*').is_some_and(|at| at + 1 < url.len()) {
                let detail =
                    "non-resource URL wildcards '*' must be the final character of the rule";
                self.errors.invalid(&path.index(index), url.as_str(), detail);
            }
        }
    }

    fn group_resources(&mut self, of: &Value, path: &Path<'_>) -> Result<GroupResources, String> {
        self.note_unknown(&format!("{path}."), of, RESOURCE_FIELDS);
        let group = text(of, "group")?.to_owned();
        let (resources, resource_names) = (texts(of, "resources")?, texts(of, "resourceNames")?);
        if !group.is_empty() {
            let messages = names::dns1123_subdomain(&group);
            if !messages.is_empty() {
                let detail = messages.join(",");
                self.errors.invalid(&path.child("group"), group.as_str(), &detail);
            }
        }
        if !resource_names.is_empty() && resources.is_empty() {
            let detail = "using resourceNames requires at least one resource";
            self.errors.invalid(&path.child("resourceNames"), resource_names.clone(), detail);
        }
        Ok(GroupResources { group, resources, resource_names })
    }

    fn note_unknown(&mut self, prefix: &str, of: &Value, known: &[&str]) {
        let fields = of.as_object().into_iter().flat_map(|it| it.keys());
        let unknown = fields.filter(|it| !known.contains(&it.as_str()));
        self.unknown.extend(unknown.map(|it| format!("{prefix}{it}")));
    }
}

/// The error for a field of another type.
fn mistyped(field: &str, expected: &str) -> String {
    format!("failed decoding: the field {} must be {expected}", quote(field))
}

fn text<'a>(of: &'a Value, field: &str) -> Result<&'a str, String> {
    match &of[field] {
        Value::Null => Ok(""),
        value => value.as_str().ok_or_else(|| mistyped(field, "a string")),
    }
}

fn flag(of: &Value, field: &str) -> Result<Option<bool>, String> {
    match &of[field] {
        Value::Null => Ok(None),
        value => value.as_bool().map(Some).ok_or_else(|| mistyped(field, "a boolean")),
    }
}

fn list<'a>(of: &'a Value, field: &str, expected: &str) -> Result<&'a [Value], String> {
    match &of[field] {
        Value::Null => Ok(&[]),
        value => value.as_array().map(Vec::as_slice).ok_or_else(|| mistyped(field, expected)),
    }
}

fn texts(of: &Value, field: &str) -> Result<Vec<String>, String> {
    let expected = "a list of strings";
    let items = list(of, field, expected)?.iter();
    let texts = items.map(|it| it.as_str().map(ToOwned::to_owned));
    texts.collect::<Option<_>>().ok_or_else(|| mistyped(field, expected))
}

fn objects<'a>(of: &'a Value, field: &str) -> Result<&'a [Value], String> {
    let expected = "a list of objects";
    let items = list(of, field, expected)?;
    if items.iter().all(Value::is_object) { Ok(items) } else { Err(mistyped(field, expected)) }
}
