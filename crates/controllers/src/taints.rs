//! Taints of nodes, and the tolerations of pods.

use serde::{Deserialize, Serialize};

/// A taint of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Taint {
    /// `node.kubernetes.io/not-ready`
    pub key: String,
    /// The value, often empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// The time at which a `NoExecute` taint was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
}

/// A toleration of taints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub(crate) struct Toleration {
    /// The key of the taint; empty for all keys.
    pub key: String,
    /// `Exists`, or `Equal`, which is the default.
    pub operator: String,
    /// The value of the taint.
    pub value: String,
    /// The effect of the taint; empty for all effects.
    pub effect: String,
    /// The time for which a `NoExecute` taint is tolerated; for ever without it.
    #[serde(rename = "tolerationSeconds")]
    pub seconds: Option<i64>,
}

/// The first taint with one of the effects that no toleration tolerates.
pub(crate) fn untolerated_taint<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    effects: &[&str],
) -> Option<&'a Taint> {
    let mut relevant = taints.iter().filter(|taint| effects.contains(&taint.effect.as_str()));
    relevant.find(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

impl Taint {
    /// A taint without a value.
    pub(crate) fn new(key: &str, effect: &str, time_added: Option<String>) -> Self {
        let (key, effect) = (key.to_owned(), effect.to_owned());
        Self { key, effect, time_added, ..Self::default() }
    }

    /// Whether this is the taint with this key and effect.
    pub(crate) fn is(&self, key: &str, effect: &str) -> bool {
        self.key == key && self.effect == effect
    }
}

impl Toleration {
    /// Upstream: api/core/v1/toleration.go `ToleratesTaint`
    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        if !self.effect.is_empty() && self.effect != taint.effect {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_toleration_must_cover_key_value_and_effect() {
        let taint = json!({"key": "gpu", "value": "a", "effect": "NoSchedule"});
        let taint: Taint = serde_json::from_value(taint).unwrap();
        for (toleration, expected) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}), true),
            (json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "gpu", "value": "a"}), true),
            (json!({"key": "gpu", "operator": "Equal", "value": "b"}), false),
            (json!({"key": "disk", "operator": "Exists"}), false),
        ] {
            let parsed: Toleration = serde_json::from_value(toleration.clone()).unwrap();
            assert_eq!(parsed.tolerates(&taint), expected, "{toleration}");
            let untolerated = |effects: &[&str]| {
                untolerated_taint(
                    std::slice::from_ref(&taint),
                    std::slice::from_ref(&parsed),
                    effects,
                )
            };
            assert_eq!(untolerated(&["NoSchedule"]).is_none(), expected, "{toleration}");
            assert_eq!(untolerated(&["NoExecute"]), None, "{toleration}");
        }
    }
}
