//! [`Widget`]: a custom resource of 1 KiB, half of which is common to all.

use std::collections::BTreeMap;

use kube::CustomResource;
use kube::api::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use keel::Entropy;

/// The namespace of the cached objects.
pub(crate) const CACHED: &str = "cached";
/// The namespace of the reconciled objects.
pub(crate) const CONTROLLED: &str = "controlled";

/// The length of a widget as its author writes it.
const LENGTH: usize = 1024;
const REGIONS: [&str; 4] = ["eu-west-1", "eu-central-1", "us-east-1", "ap-southeast-2"];
const TIERS: [&str; 3] = ["production", "staging", "development"];
const WORDS: [&str; 16] = [
    "keeps",
    "the",
    "orders",
    "of",
    "customers",
    "until",
    "billing",
    "has",
    "seen",
    "them",
    "see",
    "runbook",
    "before",
    "restarting",
    "or",
    "moving",
];

/// The desired state.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[kube(group = "speed.example.com", version = "v1", kind = "Widget", namespaced)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WidgetSpec {
    /// The number of changes.
    pub round: u64,
    image: String,
    digest: String,
    replicas: u32,
    paused: bool,
    region: String,
    tier: String,
    host: String,
    owner: Owner,
    ports: Vec<Port>,
    environment: BTreeMap<String, String>,
    notes: String,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone)]
struct Owner {
    team: String,
    email: String,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone)]
struct Port {
    name: String,
    number: u16,
    protocol: String,
}

/// The name of the widget with this number.
pub(crate) fn name(number: usize) -> String {
    format!("widget-{number:06}")
}

/// The number of the widget with this name.
pub(crate) fn number(name: &str) -> Option<usize> {
    name.strip_prefix("widget-")?.parse().ok()
}

/// The widget with this number, as its author writes it.
pub(crate) fn sample(number: usize, entropy: &Entropy) -> Widget {
    let (name, team) = (name(number), format!("team-{}", number % 97));
    let port = |name: &str, number| Port { name: name.into(), number, protocol: "TCP".into() };
    let environment = [
        ("LOG_LEVEL", "info".to_owned()),
        ("DATABASE_URL", format!("postgres://{name}.db.internal:5432/orders")),
        ("CACHE_TTL", "300s".to_owned()),
        ("TRACE_ID", hex(16, entropy)),
    ];
    let spec = WidgetSpec {
        round: 0,
        image: format!("registry.example.com/{team}/widget:v1.{}.{}", number % 7, number % 11),
        digest: format!("sha256:{}", hex(32, entropy)),
        replicas: u32::try_from(entropy.below(9)).unwrap_or_default(),
        paused: entropy.below(10) == 0,
        region: pick(&REGIONS, entropy).to_owned(),
        tier: pick(&TIERS, entropy).to_owned(),
        host: format!("{name}.{team}.example.com"),
        owner: Owner { email: format!("{team}@example.com"), team: team.clone() },
        ports: vec![port("http", 8080), port("metrics", 9090)],
        environment: environment.map(|(name, value)| (name.to_owned(), value)).into(),
        notes: String::new(),
    };
    let labels = BTreeMap::from([("app".to_owned(), "widget".to_owned()), ("team".into(), team)]);
    let mut widget = Widget::new(&name, spec);
    widget.metadata = ObjectMeta { labels: Some(labels), ..widget.metadata };
    let length = serde_json::to_string(&widget).map_or(0, |json| json.len());
    widget.spec.notes = prose(LENGTH.saturating_sub(length), entropy);
    widget
}

/// Random bytes as text.
pub(crate) fn hex(bytes: usize, entropy: &Entropy) -> String {
    let digit = || char::from_digit(u32::try_from(entropy.below(16)).unwrap_or_default(), 16);
    (0..2 * bytes).filter_map(|_| digit()).collect()
}

/// One of these, at random.
pub(crate) fn pick<'a>(among: &[&'a str], entropy: &Entropy) -> &'a str {
    among[usize::try_from(entropy.below(among.len() as u64)).unwrap_or_default()]
}

fn prose(length: usize, entropy: &Entropy) -> String {
    let mut text = String::new();
    while text.len() < length {
        text += pick(&WORDS, entropy);
        text.push(' ');
    }
    text.truncate(length);
    text
}
