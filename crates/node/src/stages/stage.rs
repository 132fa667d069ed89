//! [`Stage`]: a Stage object, checked and compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::decode::decode;
use crate::jq::{Budget, Query};
use crate::template::Template;
use crate::{requests, time};
use keel::{Entropy, Timestamp};
use machinery::go_duration;
use runtime::informer::Item;
use runtime::recorder::EventType;

/// The kind of the objects of a Stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StagedKind {
    /// Pods of simulated nodes.
    Pod,
    /// Simulated nodes.
    Node,
}

impl StagedKind {
    /// The functions of templates that depend on the object and its node.
    fn functions(self) -> &'static [&'static str] {
        match self {
            Self::Pod => &POD_FUNCTIONS,
            Self::Node => &NODE_FUNCTIONS,
        }
    }
}

/// The functions of the templates for pods; `pod_controller` evaluates them.
const POD_FUNCTIONS: [&str; 10] = [
    "Now",
    "StartTime",
    "NodeIP",
    "NodeIPWith",
    "NodeIPs",
    "NodeIPsWith",
    "PodIP",
    "PodIPWith",
    "PodIPs",
    "PodIPsWith",
];

/// The functions of the templates for nodes; `node_controller` evaluates them.
const NODE_FUNCTIONS: [&str; 6] = ["Now", "StartTime", "NodeIP", "NodeIPs", "NodeName", "NodePort"];

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Stage {
    /// The name.
    pub name: String,
    /// The version of the object.
    pub version: String,
    /// The kind of the selected objects.
    pub kind: StagedKind,
    /// The steps, in order.
    pub steps: Vec<Step>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    requirements: Vec<Requirement>,
    weight: u64,
    weight_from: Option<Query>,
    duration: (Option<Duration>, Option<Query>),
    jitter: (Option<Duration>, Option<Query>),
}

/// The parts of an object that are compared before it is decoded: most Stages select few objects.
#[derive(Debug)]
pub(crate) struct SelectedMetadata {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl SelectedMetadata {
    /// Those of an object.
    pub(crate) fn of(item: &Item) -> Self {
        let annotations = item.decode_metadata("annotations").ok().flatten();
        Self { labels: item.labels(), annotations: annotations.unwrap_or_default() }
    }
}

/// A step of a Stage.
#[derive(Debug)]
pub(crate) enum Step {
    Event { event_type: EventType, reason: String, message: String },
    Finalizers(FinalizerChange),
    Delete,
    Patch(Patch),
}

/// A patch of the object or of a subresource.
#[derive(Debug)]
pub(crate) struct Patch {
    pub subresource: String,
    /// The field that contains the rendered template.
    pub root: String,
    pub template: Template,
    pub media_type: &'static str,
}

/// A change of the finalizers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FinalizerChange {
    add: Vec<Finalizer>,
    remove: Vec<Finalizer>,
    empty: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Finalizer {
    value: String,
}

impl FinalizerChange {
    /// The merge patch of an object, which fails if the object has changed meanwhile; `None` if nothing
    /// changes.
    pub(crate) fn patch(&self, object: &Value) -> Option<Value> {
        let present = object["metadata"]["finalizers"].as_array().into_iter().flatten();
        let present: Vec<&str> = present.filter_map(Value::as_str).collect();
        let is_kept =
            |it: &&&str| !self.empty && !self.remove.iter().any(|gone| gone.value == ***it);
        let mut wanted: Vec<&str> = present.iter().filter(is_kept).copied().collect();
        for added in &self.add {
            if !wanted.contains(&added.value.as_str()) {
                wanted.push(&added.value);
            }
        }
        let (uid, version) = (&object["metadata"]["uid"], &object["metadata"]["resourceVersion"]);
        let metadata = json!({"uid": uid, "finalizers": wanted, "resourceVersion": version});
        (wanted != present).then(|| json!({"metadata": metadata}))
    }
}

#[derive(Debug)]
struct Requirement {
    query: Query,
    operator: String,
    values: BTreeSet<String>,
}

impl Requirement {
    /// Upstream: `pkg/utils/expression/selector.go`, `Matches`.
    fn matches(&self, object: &Value, budget: &mut Budget) -> Result<bool, String> {
        let results = self.query.results(object, budget)?;
        let has_value = || {
            results.iter().any(|result| match &**result {
                Value::String(text) => self.values.contains(text),
                Value::Bool(_) | Value::Number(_) => self.values.contains(&result.to_string()),
                _ => false,
            })
        };
        Ok(match self.operator.as_str() {
            "In" => has_value(),
            "NotIn" => !has_value(),
            "Exists" => !results.is_empty(),
            _ => results.is_empty(),
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StageObject {
    metadata: StageMetadata,
    spec: StageSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StageMetadata {
    name: String,
    resource_version: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StageSpec {
    resource_ref: ResourceRef,
    selector: Option<Selector>,
    weight: u64,
    weight_from: Option<ExpressionFrom>,
    delay: Option<Delay>,
    next: Option<Next>,
    steps: Vec<StageStep>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourceRef {
    api_group: String,
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Selector {
    #[serde(rename = "matchLabels")]
    labels: BTreeMap<String, String>,
    #[serde(rename = "matchAnnotations")]
    annotations: BTreeMap<String, String>,
    #[serde(rename = "matchExpressions")]
    expressions: Vec<MatchExpression>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MatchExpression {
    cel: Option<Value>,
    jq: Option<JqRequirement>,
    #[serde(flatten)]
    own: JqRequirement,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JqRequirement {
    key: String,
    operator: String,
    values: BTreeSet<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ExpressionFrom {
    cel: Option<Value>,
    jq: Option<JqExpression>,
    #[serde(rename = "expressionFrom")]
    own: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JqExpression {
    expression: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Delay {
    duration_milliseconds: Option<u64>,
    duration_from: Option<ExpressionFrom>,
    jitter_duration_milliseconds: Option<u64>,
    jitter_duration_from: Option<ExpressionFrom>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Next {
    event: Option<StageEvent>,
    finalizers: Option<FinalizerChange>,
    delete: bool,
    patches: Vec<StagePatch>,
    status_template: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StageStep {
    event: Option<StageEvent>,
    finalizers: Option<FinalizerChange>,
    delete: bool,
    patch: Option<StagePatch>,
    apply: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StageEvent {
    #[serde(rename = "type")]
    type_: String,
    reason: String,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StagePatch {
    subresource: String,
    root: String,
    template: String,
    #[serde(rename = "type")]
    type_: Option<String>,
    impersonation: Option<Value>,
}

impl Stage {
    /// Compiles a Stage object: `None` if it selects no objects, an error if it uses a feature that
    /// is not supported.
    pub(crate) fn compile(object: &Value) -> Result<Option<Self>, String> {
        let StageObject { metadata, spec } = decode(object)?;
        let kind = match (spec.resource_ref.api_group.as_str(), spec.resource_ref.kind.as_str()) {
            ("" | "v1", "Pod") => StagedKind::Pod,
            ("" | "v1", "Node") => StagedKind::Node,
            (_, kind) => return Err(format!("the kind {kind:?} is not supported")),
        };
        let Some(selector) = spec.selector else { return Ok(None) };
        let mut requirements = Vec::new();
        for expression in selector.expressions {
            requirements.push(expression.compile()?);
        }
        let mut steps = Vec::new();
        for step in
            spec.next.map(Next::into_steps).unwrap_or_default().into_iter().chain(spec.steps)
        {
            step.compile(kind, &mut steps)?;
        }
        let delay = spec.delay.unwrap_or_default();
        let millis = |millis: Option<u64>| millis.map(Duration::from_millis);
        Ok(Some(Self {
            name: metadata.name,
            version: metadata.resource_version,
            kind,
            steps,
            labels: selector.labels,
            annotations: selector.annotations,
            requirements,
            weight: spec.weight,
            weight_from: query(spec.weight_from)?,
            duration: (millis(delay.duration_milliseconds), query(delay.duration_from)?),
            jitter: (
                millis(delay.jitter_duration_milliseconds),
                query(delay.jitter_duration_from)?,
            ),
        }))
    }

    /// Whether an object has the labels and annotations that the Stage selects.
    pub(crate) fn may_select(&self, object: &SelectedMetadata) -> bool {
        let has_all = |wanted: &BTreeMap<String, String>, found: &BTreeMap<String, String>| {
            wanted.iter().all(|(key, value)| found.get(key) == Some(value))
        };
        has_all(&self.labels, &object.labels) && has_all(&self.annotations, &object.annotations)
    }

    /// The weight for an object that the Stage [may select](Self::may_select); `None` if the Stage does
    /// not. Fails if the queries take too many steps.
    pub(crate) fn weight(&self, object: &Value) -> Result<Option<u64>, String> {
        let mut budget = Budget::new();
        for requirement in &self.requirements {
            if !requirement.matches(object, &mut budget)? {
                return Ok(None);
            }
        }
        let Some(query) = &self.weight_from else { return Ok(Some(self.weight)) };
        let results = query.results(object, &mut budget)?;
        Ok(Some(match results.first().map(|result| &**result) {
            Some(Value::String(text)) => text.parse().unwrap_or_default(),
            Some(Value::Number(number)) => number.as_u64().unwrap_or_default(),
            _ => self.weight,
        }))
    }

    /// The delay for an object. Fails if the queries take too many steps.
    pub(crate) fn delay(
        &self,
        object: &Value,
        now: Timestamp,
        entropy: &Entropy,
    ) -> Result<Duration, String> {
        let Some(duration) = evaluate(&self.duration, object, now)? else {
            return Ok(Duration::ZERO);
        };
        let Some(jitter) = evaluate(&self.jitter, object, now)? else { return Ok(duration) };
        let Some(range) = jitter.checked_sub(duration).filter(|range| !range.is_zero()) else {
            return Ok(jitter);
        };
        let range = u64::try_from(range.as_nanos()).unwrap_or(u64::MAX);
        Ok(duration + Duration::from_nanos(entropy.below(range)))
    }
}

/// A duration, or the time until a timestamp, from an object.
fn evaluate(
    (fixed, query): &(Option<Duration>, Option<Query>),
    object: &Value,
    now: Timestamp,
) -> Result<Option<Duration>, String> {
    let Some(query) = query else { return Ok(*fixed) };
    let results = query.results(object, &mut Budget::new())?;
    let Some(Value::String(text)) = results.first().map(|result| &**result) else {
        return Ok(*fixed);
    };
    if let Some(at) = time::parse(text) {
        return Ok(Some(at.since(now)));
    }
    Ok(go_duration::parse_duration(text).ok().or(*fixed))
}

fn query(from: Option<ExpressionFrom>) -> Result<Option<Query>, String> {
    let Some(from) = from else { return Ok(None) };
    if from.cel.is_some() {
        return Err("CEL expressions are not supported".to_owned());
    }
    let text = from.jq.map_or(from.own, |jq| jq.expression);
    if text.is_empty() { Ok(None) } else { Query::parse(&text).map(Some) }
}

impl MatchExpression {
    fn compile(self) -> Result<Requirement, String> {
        if self.cel.is_some() {
            return Err("CEL expressions are not supported".to_owned());
        }
        let JqRequirement { key, operator, values } = self.jq.unwrap_or(self.own);
        if !matches!(operator.as_str(), "In" | "NotIn" | "Exists" | "DoesNotExist") {
            return Err(format!("the operator {operator:?} is not supported"));
        }
        Ok(Requirement { query: Query::parse(&key)?, operator, values })
    }
}

impl Next {
    /// The same as steps.
    fn into_steps(self) -> Vec<StageStep> {
        let mut steps = vec![StageStep {
            event: self.event,
            finalizers: self.finalizers,
            delete: self.delete,
            ..StageStep::default()
        }];
        let mut patches = self.patches;
        if !self.status_template.is_empty() {
            patches.push(StagePatch {
                subresource: "status".to_owned(),
                root: "status".to_owned(),
                template: self.status_template,
                ..StagePatch::default()
            });
        }
        let patches = patches.into_iter();
        steps.extend(patches.map(|patch| StageStep { patch: Some(patch), ..StageStep::default() }));
        steps
    }
}

impl StageStep {
    fn compile(self, kind: StagedKind, steps: &mut Vec<Step>) -> Result<(), String> {
        if self.apply.is_some() {
            return Err("steps that apply objects are not supported".to_owned());
        }
        if let Some(StageEvent { type_, reason, message }) = self.event {
            let is_warning = type_ == "Warning";
            let event_type = if is_warning { EventType::Warning } else { EventType::Normal };
            steps.push(Step::Event { event_type, reason, message });
        }
        steps.extend(self.finalizers.map(Step::Finalizers));
        if self.delete {
            steps.push(Step::Delete);
        }
        if let Some(patch) = self.patch {
            if patch.impersonation.is_some() {
                return Err("impersonation is not supported".to_owned());
            }
            if !is_subresource(&patch.subresource) {
                return Err(format!("the subresource {:?} is not supported", patch.subresource));
            }
            let media_type = match patch.type_.as_deref() {
                None | Some("strategic") => requests::STRATEGIC_MERGE,
                Some("merge") => requests::MERGE,
                Some("json") => requests::JSON_PATCH,
                Some(other) => return Err(format!("the patch type {other:?} is not supported")),
            };
            steps.push(Step::Patch(Patch {
                subresource: patch.subresource,
                root: patch.root,
                template: Template::parse(&patch.template, kind.functions())
                    .map_err(|error| format!("its template is wrong: {error}"))?,
                media_type,
            }));
        }
        Ok(())
    }
}

/// Whether a text is empty or can be the name of a subresource: one segment of a path.
fn is_subresource(name: &str) -> bool {
    name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(spec: &Value) -> Result<Option<Stage>, String> {
        Stage::compile(&json!({"metadata": {"name": "s"}, "spec": spec}))
    }

    #[test]
    fn a_subresource_is_one_segment_of_a_path() {
        let with = |subresource: &str| {
            let patch = json!({"subresource": subresource, "template": "a: b"});
            compile(&json!({"resourceRef": {"kind": "Pod"}, "selector": {},
                "steps": [{"patch": patch}]}))
        };
        for name in ["", "status", "ephemeralcontainers"] {
            assert!(with(name).is_ok(), "{name}");
        }
        for name in
            ["../../../kube-system/configmaps/x", "..", "a/b", "status?dryRun=All", "a%2fb", "A"]
        {
            let expect = format!("the subresource {name:?} is not supported");
            assert_eq!(with(name).unwrap_err(), expect);
        }
    }
}
