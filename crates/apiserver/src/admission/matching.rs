//! [`Criteria`]: which requests a webhook is about.

use super::{Attempt, Operation};
use machinery::selector::LabelSelector;
use machinery::{GroupResource, Object, Status, Value};

/// See the [module documentation](self).
pub(crate) struct Criteria {
    rules: Vec<Rule>,
    exact: bool,
    namespaces: LabelSelector,
    objects: LabelSelector,
}

struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
}

/// How the object of a matched request is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Matched {
    /// The index of one of the resource's versions.
    pub version: usize,
    /// Of the request, or "".
    pub subresource: String,
}

impl Criteria {
    /// From a webhook.
    pub(crate) fn of_webhook(webhook: &Value) -> Self {
        let selector = |field: &str| match &webhook[field] {
            Value::Null => LabelSelector::everything(),
            value => LabelSelector::from_value(value).unwrap_or_else(|_| LabelSelector::nothing()),
        };
        let rules = webhook["rules"].as_array().map_or(&[][..], Vec::as_slice);
        Self {
            rules: rules.iter().map(Rule::of).collect(),
            exact: webhook["matchPolicy"] == "Exact",
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// How to show the object, if the request is matched.
    pub(crate) fn matched(
        &self,
        attempt: &Attempt<'_>,
        object: Option<&Object>,
    ) -> Result<Option<Matched>, Status> {
        let versions = &attempt.cx.resource().versions;
        let asked = attempt.cx.version;
        let others =
            (0..versions.len()).filter(|it| !self.exact && *it != asked && versions[*it].served);
        let is_for = |version: &usize| self.rules.iter().any(|it| it.matches(attempt, *version));
        let Some(version) = std::iter::once(asked).chain(others).find(is_for) else {
            return Ok(None);
        };
        if !self.selects_object(attempt, object) || !self.selects_namespace(attempt, object)? {
            return Ok(None);
        }
        Ok(Some(Matched { version, subresource: attempt.cx.target.subresource.clone() }))
    }

    fn selects_object(&self, attempt: &Attempt<'_>, object: Option<&Object>) -> bool {
        let has = |object: &Object| self.objects.matches(|key| object.label(key));
        self.objects.is_empty() || object.is_some_and(has) || attempt.old.is_some_and(has)
    }

    fn selects_namespace(
        &self,
        attempt: &Attempt<'_>,
        object: Option<&Object>,
    ) -> Result<bool, Status> {
        let is_namespace = is_namespace(attempt);
        if self.namespaces.is_empty() || attempt.namespace.is_empty() && !is_namespace {
            return Ok(true);
        }
        let has = |object: &Object| self.namespaces.matches(|key| object.label(key));
        let writes = matches!(attempt.operation, Operation::Create | Operation::Update);
        if is_namespace && let Some(shown) = object.filter(|_| writes).or(attempt.old) {
            return Ok(has(shown));
        }
        let catalog = attempt.cx.plane.catalog.load();
        let served = catalog.resource("", "namespaces").expect("the kind is built in");
        let found = served.cache.get(&served.key("", attempt.namespace));
        let missing =
            || Status::not_found(&GroupResource::new("", "namespaces"), attempt.namespace);
        Ok(has(&found.ok_or_else(missing)?.object_as_stored()))
    }
}

fn is_namespace(attempt: &Attempt<'_>) -> bool {
    let resource = attempt.cx.resource();
    resource.group.is_empty() && resource.plural == "namespaces"
}

impl Rule {
    fn of(rule: &Value) -> Self {
        let texts = |field: &str| {
            let items = rule[field].as_array().into_iter().flatten().filter_map(Value::as_str);
            items.map(ToOwned::to_owned).collect()
        };
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
        }
    }

    fn matches(&self, attempt: &Attempt<'_>, version: usize) -> bool {
        let resource = attempt.cx.resource();
        let version = &resource.versions[version];
        let names = |list: &[String], name: &str| list.iter().any(|it| it == "*" || it == name);
        let subresource = &attempt.cx.target.subresource;
        let scope = match self.scope.as_str() {
            "Cluster" => !resource.namespaced,
            "Namespaced" => resource.namespaced,
            _ => true,
        };
        scope
            && names(&self.operations, attempt.operation.as_str())
            && names(&self.groups, resource.group_of(version))
            && names(&self.versions, &version.name)
            && self.resources.iter().any(|it| {
                let (plural, below) = it.split_once('/').unwrap_or((it, ""));
                (plural == "*" || plural == resource.plural)
                    && (below == "*" || below == subresource)
            })
    }
}
