//! [`Structural`]: a schema compiled into a tree that prunes, defaults and validates objects.
//!
//! A CRD may have a megabyte of OpenAPI and a server hundreds of CRDs, so a node contains only what
//! is needed to process objects: no descriptions, rarely used keywords behind one pointer
//! ([`Checks`]), and patterns that are compiled when they are first needed.

use std::sync::{Arc, OnceLock};

use crate::enum_values::EnumValues;
use crate::format::Format;
use crate::json_schema::JsonSchema;
use crate::pattern::{Pattern, PatternPool};
use crate::rules::{Rule, Validator};
use machinery::Value;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Structural {
    pub(crate) root: Node,
    /// Whether nothing is pruned: the CRD was created as v1beta1 with `preserveUnknownFields`.
    pub(crate) keeps_unknown: bool,
    /// Compiled when the first object is validated: most CRDs of a server have few objects or none.
    pub(crate) validator: OnceLock<Option<Validator>>,
    /// The patterns of the schema, without repetition.
    pub(crate) patterns: Box<[Arc<Pattern>]>,
    /// The memory of the compiled rules, measured on demand.
    pub(crate) rule_memory: OnceLock<usize>,
}

impl Structural {
    /// Compiles `openAPIV3Schema`. Invalid keywords are ignored: the CRD was validated before.
    pub fn compile(openapi_v3_schema: &Value) -> Self {
        Self::compile_with(openapi_v3_schema, &PatternPool::default())
    }

    /// Like [`compile`](Self::compile), but shares patterns with the other schemas of the pool.
    pub fn compile_with(openapi_v3_schema: &Value, pool: &PatternPool) -> Self {
        let mut root = JsonSchema::of(openapi_v3_schema).map(Node::compile).unwrap_or_default();
        let patterns = pool.intern(&mut root);
        Self { root, patterns, ..Self::empty() }
    }

    fn empty() -> Self {
        Self {
            root: Node::default(),
            keeps_unknown: false,
            validator: OnceLock::new(),
            patterns: Box::default(),
            rule_memory: OnceLock::new(),
        }
    }

    /// The same schema for a CRD with `preserveUnknownFields: true`: it validates, but prunes
    /// nothing.
    #[must_use]
    pub fn keeping_unknown_fields(self) -> Self {
        Self { keeps_unknown: true, ..self }
    }

    /// The schema of a CRD without one, as v1beta1 allows: every field is kept.
    pub fn anything() -> Self {
        Self { keeps_unknown: true, ..Self::empty() }
    }
}

/// The `type` of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Type {
    /// Not set.
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// `x-kubernetes-int-or-string`
    IntOrString,
}

impl Type {
    pub(crate) fn of(source: JsonSchema<'_>) -> Self {
        if source.flag("x-kubernetes-int-or-string") {
            return Self::IntOrString;
        }
        match source.text("type") {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => Self::Any,
        }
    }

    /// The name in error messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "integer,string",
        }
    }
}

/// The boolean properties of a node, in one byte.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NodeFlags(u8);

impl NodeFlags {
    /// `nullable`
    pub(crate) const NULLABLE: u8 = 1;
    /// `x-kubernetes-preserve-unknown-fields`
    pub(crate) const PRESERVES_UNKNOWN: u8 = 2;
    /// `x-kubernetes-embedded-resource`
    pub(crate) const EMBEDDED: u8 = 4;
    /// This node or one below it has a default.
    pub(crate) const DEFAULTS_BELOW: u8 = 8;
    /// This node or one below it is a list with `x-kubernetes-list-type: set` or `map`.
    pub(crate) const KEYED_LISTS_BELOW: u8 = 16;
    /// This node or one below it is an embedded resource.
    pub(crate) const EMBEDDED_BELOW: u8 = 32;

    /// This node or one below it has a rule.
    pub(crate) const RULES_BELOW: u8 = 64;

    const INHERITED: u8 =
        Self::DEFAULTS_BELOW | Self::KEYED_LISTS_BELOW | Self::EMBEDDED_BELOW | Self::RULES_BELOW;

    pub(crate) fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    fn set(&mut self, flag: u8, on: bool) {
        self.0 |= if on { flag } else { 0 };
    }

    fn inherit(&mut self, child: NodeFlags) {
        self.0 |= child.0 & Self::INHERITED;
    }
}

/// `x-kubernetes-list-type`: how the items of a list are identified.
#[derive(Debug, Default)]
pub(crate) enum List {
    /// Items are not identified.
    #[default]
    Atomic,
    /// By their values.
    Set,
    /// By the values of these fields.
    Map(Box<[Box<str>]>),
}

/// The schema of fields that `properties` does not name.
#[derive(Debug, Default)]
pub(crate) enum Additional {
    /// The keyword is missing.
    #[default]
    Unstated,
    /// `true`
    Allowed,
    /// `false`
    Forbidden,
    /// A schema.
    Schema(Box<Node>),
}

/// One schema of the tree.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) kind: Type,
    pub(crate) flags: NodeFlags,
    pub(crate) list: List,
    pub(crate) default: Option<Box<Value>>,
    /// Sorted by name.
    properties: Box<[(Box<str>, Node)]>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) checks: Option<Box<Checks>>,
}

impl Node {
    pub(crate) fn compile(source: JsonSchema<'_>) -> Self {
        let mut properties: Vec<(Box<str>, Node)> =
            source.properties().map(|(name, it)| (name.into(), Node::compile(it))).collect();
        properties.sort_by(|a, b| a.0.cmp(&b.0));
        let additional = match source.value("additionalProperties") {
            None => Additional::Unstated,
            Some(Value::Bool(false)) => Additional::Forbidden,
            Some(value) => JsonSchema::of(value)
                .map_or(Additional::Allowed, |it| Additional::Schema(Node::compile(it).into())),
        };
        let mut node = Self {
            kind: Type::of(source),
            flags: NodeFlags::default(),
            list: match source.list_type() {
                "set" => List::Set,
                "map" => {
                    List::Map(source.texts("x-kubernetes-list-map-keys").map(Box::from).collect())
                }
                _ => List::Atomic,
            },
            default: source.value("default").map(|value| Box::new(value.clone())),
            properties: properties.into(),
            additional,
            items: source.schema("items").map(|it| Node::compile(it).into()),
            checks: Checks::compile(source).map(Box::new),
        };
        node.set_flags(source);
        crate::embedded::prune_default(&mut node);
        node
    }

    fn set_flags(&mut self, source: JsonSchema<'_>) {
        let embedded = source.flag("x-kubernetes-embedded-resource");
        let mut flags = NodeFlags::default();
        flags.set(NodeFlags::NULLABLE, source.flag("nullable"));
        flags
            .set(NodeFlags::PRESERVES_UNKNOWN, source.flag("x-kubernetes-preserve-unknown-fields"));
        flags.set(NodeFlags::EMBEDDED | NodeFlags::EMBEDDED_BELOW, embedded);
        flags.set(NodeFlags::DEFAULTS_BELOW, self.default.is_some());
        flags.set(NodeFlags::KEYED_LISTS_BELOW, !matches!(self.list, List::Atomic));
        flags.set(NodeFlags::RULES_BELOW, !self.rules().is_empty());
        for (_, child) in &self.properties {
            flags.inherit(child.flags);
        }
        if let Additional::Schema(child) = &self.additional {
            flags.inherit(child.flags);
        }
        if let Some(child) = &self.items {
            flags.inherit(child.flags);
        }
        self.flags = flags;
    }

    /// The schema of a field in `properties`.
    pub(crate) fn property(&self, name: &str) -> Option<&Node> {
        let index = self.properties.binary_search_by(|(it, _)| (**it).cmp(name)).ok()?;
        Some(&self.properties[index].1)
    }

    /// The schema of a field in `properties` or by `additionalProperties`.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        self.property(name).or(match &self.additional {
            Additional::Schema(node) => Some(node),
            _ => None,
        })
    }

    /// Calls `visit` with the patterns of this node and of all nodes below, including those in
    /// `allOf`, `anyOf`, `oneOf` and `not`.
    pub(crate) fn each_pattern(&mut self, visit: &mut dyn FnMut(&mut Arc<Pattern>)) {
        if let Some(checks) = &mut self.checks {
            if let Some(pattern) = checks.text.as_mut().and_then(|it| it.pattern.as_mut()) {
                visit(pattern);
            }
            if let Some(combined) = &mut checks.combined {
                let lists = [&mut combined.all_of, &mut combined.any_of, &mut combined.one_of];
                let nodes = lists.into_iter().flatten().chain(&mut combined.not);
                nodes.for_each(|it| it.each_pattern(visit));
            }
        }
        for (_, child) in &mut self.properties {
            child.each_pattern(visit);
        }
        if let Additional::Schema(child) = &mut self.additional {
            child.each_pattern(visit);
        }
        if let Some(child) = &mut self.items {
            child.each_pattern(visit);
        }
    }

    /// The fields in `properties`.
    pub(crate) fn properties(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.properties.iter().map(|(name, node)| (&**name, node))
    }

    /// `x-kubernetes-validations`
    pub(crate) fn rules(&self) -> &[Rule] {
        self.checks.as_deref().map_or(&[], |it| &it.rules)
    }

    pub(crate) fn is_nullable(&self) -> bool {
        self.flags.has(NodeFlags::NULLABLE)
    }

    pub(crate) fn is_embedded(&self) -> bool {
        self.flags.has(NodeFlags::EMBEDDED)
    }
}

/// The keywords that most schemas do not use.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) required: Box<[Box<str>]>,
    pub(crate) enum_values: EnumValues,
    pub(crate) format: Option<Format>,
    pub(crate) text: Option<Box<TextChecks>>,
    pub(crate) number: Option<Box<NumberChecks>>,
    pub(crate) size: Option<Box<SizeChecks>>,
    pub(crate) combined: Option<Box<Combined>>,
    pub(crate) rules: Box<[Rule]>,
}

/// The keywords for strings.
#[derive(Debug)]
pub(crate) struct TextChecks {
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) pattern: Option<Arc<Pattern>>,
}

/// The keywords for numbers.
#[derive(Debug)]
pub(crate) struct NumberChecks {
    pub(crate) multiple_of: Option<f64>,
    pub(crate) minimum: Option<Bound>,
    pub(crate) maximum: Option<Bound>,
}

/// The keywords for the sizes of lists and maps.
#[derive(Debug)]
pub(crate) struct SizeChecks {
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) unique_items: bool,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
}

/// `allOf`, `anyOf`, `oneOf` and `not`.
#[derive(Debug)]
pub(crate) struct Combined {
    pub(crate) all_of: Box<[Node]>,
    pub(crate) any_of: Box<[Node]>,
    pub(crate) one_of: Box<[Node]>,
    pub(crate) not: Option<Node>,
}

/// A minimum or a maximum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) value: f64,
    pub(crate) exclusive: bool,
}

impl Checks {
    /// None if the schema uses none of these keywords.
    fn compile(source: JsonSchema<'_>) -> Option<Self> {
        let combined =
            |keyword| source.schemas(keyword).map(Node::compile).collect::<Box<[Node]>>();
        let bound = |keyword, exclusive| {
            source.number(keyword).map(|value| Bound { value, exclusive: source.flag(exclusive) })
        };
        let used = |keywords: &[&str]| keywords.iter().any(|it| source.non_empty(it).is_some());
        let counted = |keywords: &[&str]| keywords.iter().any(|it| source.count(it).is_some());

        let pattern = Some(source.text("pattern")).filter(|it| !it.is_empty());
        let pattern = pattern.map(|it| Arc::new(Pattern::new(it)));
        let text =
            (pattern.is_some() || counted(&["minLength", "maxLength"])).then(|| TextChecks {
                min_length: source.count("minLength"),
                max_length: source.count("maxLength"),
                pattern,
            });
        let number = NumberChecks {
            multiple_of: source.number("multipleOf"),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
        };
        let has_number =
            number.multiple_of.is_some() || number.minimum.is_some() || number.maximum.is_some();
        let has_size = source.flag("uniqueItems")
            || counted(&["minItems", "maxItems", "minProperties", "maxProperties"]);
        let checks = Self {
            required: source.texts("required").map(Box::from).collect(),
            enum_values: EnumValues::of(source),
            format: Format::of(source.text("format"), Type::of(source)),
            text: text.map(Box::new),
            number: has_number.then(|| Box::new(number)),
            size: has_size.then(|| {
                Box::new(SizeChecks {
                    min_items: source.count("minItems"),
                    max_items: source.count("maxItems"),
                    unique_items: source.flag("uniqueItems"),
                    min_properties: source.count("minProperties"),
                    max_properties: source.count("maxProperties"),
                })
            }),
            combined: used(&["allOf", "anyOf", "oneOf", "not"]).then(|| {
                Box::new(Combined {
                    all_of: combined("allOf"),
                    any_of: combined("anyOf"),
                    one_of: combined("oneOf"),
                    not: source.schema("not").map(Node::compile),
                })
            }),
            rules: Rule::all(source),
        };
        let used = !checks.required.is_empty()
            || !checks.enum_values.list.is_empty()
            || checks.format.is_some()
            || checks.text.is_some()
            || checks.number.is_some()
            || checks.size.is_some()
            || checks.combined.is_some()
            || !checks.rules.is_empty();
        used.then_some(checks)
    }
}
