//! [`GrantedRights`]: the rules of a user, to find out whether they cover those of a role.
//!
//! A user can have many roles with many rules, and a role that is written has up to
//! [`MAX_RIGHTS`] rights. Rules are found by the resource that they name, and the comparison ends at a
//! limit, so that a write cannot keep a processor busy.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::rule::{Right, Rule, Target};

/// The largest number of rights that are compared with those of a user. Upstream has no limit.
const MAX_RIGHTS: usize = 20_000;

/// The largest number of texts that are compared, about ten milliseconds. Upstream has no limit.
const MAX_COMPARISONS: usize = 2_000_000;

/// See the [module documentation](self).
pub(super) struct GrantedRights<'a> {
    /// `*` and `*/status` are resources too.
    on_resources: HashMap<&'a str, Vec<&'a Rule>>,
    on_urls: Vec<&'a Rule>,
}

/// The comparison of two sets of rules takes too long.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum TooComplex {
    /// Divide the role.
    #[error(
        "the rules have {0} combinations of verbs, resources and names, more than the {MAX_RIGHTS} that can be compared with the rights of a user"
    )]
    Rights(usize),
    /// Divide the role, or bind fewer roles to the user.
    #[error("the rules and those of the user are too many to be compared")]
    Comparisons,
}

impl<'a> GrantedRights<'a> {
    /// The rights of these rules.
    pub(super) fn of(rules: impl IntoIterator<Item = &'a Rule>) -> Self {
        let mut granted = Self { on_resources: HashMap::new(), on_urls: Vec::new() };
        let mut known = HashSet::new();
        for rule in rules.into_iter().filter(|rule| known.insert(*rule)) {
            if !rule.urls.is_empty() {
                granted.on_urls.push(rule);
            }
            let resources: HashSet<&str> = rule.resources.iter().map(String::as_str).collect();
            for resource in resources {
                granted.on_resources.entry(resource).or_default().push(rule);
            }
        }
        granted
    }

    /// The rights of `wanted` that are not granted, in their order.
    ///
    /// Upstream: component-helpers/auth/rbac/validation `Covers`
    pub(super) fn missing<'w>(&self, wanted: &'w [Rule]) -> Result<Vec<Right<'w>>, TooComplex> {
        let rights = wanted.iter().map(Rule::number_of_rights).fold(0, usize::saturating_add);
        if rights > MAX_RIGHTS {
            return Err(TooComplex::Rights(rights));
        }
        let (mut missing, mut comparisons) = (Vec::new(), 0);
        for right in wanted.iter().flat_map(Rule::rights) {
            let mut is_covered = false;
            for rule in self.candidates(&right.target) {
                comparisons += rule.comparisons();
                if comparisons > MAX_COMPARISONS {
                    return Err(TooComplex::Comparisons);
                }
                if rule.covers(&right) {
                    is_covered = true;
                    break;
                }
            }
            if !is_covered {
                missing.push(right);
            }
        }
        Ok(missing)
    }

    /// The rules that may cover a right on the target.
    fn candidates(&self, target: &Target<'_>) -> impl Iterator<Item = &'a Rule> {
        let (named, all_of_part, all, on_urls) = match target {
            Target::Url(_) => (None, None, None, self.on_urls.as_slice()),
            Target::Resource { resource, .. } => {
                let part = resource.split_once('/').map(|(_, part)| format!("*/{part}"));
                let on = |resource: &str| self.on_resources.get(resource);
                (on(resource), part.and_then(|part| on(&part)), on("*"), [].as_slice())
            }
        };
        let on_resources = [all, named, all_of_part].into_iter().flatten().flatten();
        on_resources.chain(on_urls).copied()
    }
}

/// Rules with the verbs of each target, in the order of the targets.
///
/// Upstream: registry/rbac/validation `CompactRules`
pub(super) fn rules_of(rights: &[Right<'_>]) -> Vec<Rule> {
    let mut verbs = BTreeMap::<Target<'_>, Vec<String>>::new();
    for right in rights {
        verbs.entry(right.target).or_default().push(right.verb.to_owned());
    }
    verbs.into_iter().map(|(target, verbs)| target.rule(verbs)).collect()
}

/// One line for each resource, and for each verb on a path.
pub(super) fn describe(rights: &[Right<'_>]) -> Vec<String> {
    let (on_urls, on_resources): (Vec<Right<'_>>, Vec<Right<'_>>) =
        rights.iter().partition(|right| matches!(right.target, Target::Url(_)));
    // Rules on paths are not joined.
    let on_urls = on_urls.iter().map(|right| right.target.rule(vec![right.verb.to_owned()]));
    let rules = on_urls.chain(rules_of(&on_resources));
    let mut lines: Vec<String> = rules.map(|rule| rule.describe()).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::{Value, json};

    fn rule(rule: Value) -> Rule {
        serde_json::from_value(rule).unwrap()
    }

    fn missing(owned: &[Rule], wanted: &[Rule]) -> Vec<String> {
        describe(&GrantedRights::of(owned).missing(wanted).unwrap())
    }

    #[test]
    fn missing_rights_are_listed_by_resource() {
        let owned = rule(
            json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/scale"]}),
        );
        let wanted = [
            rule(
                json!({"verbs": ["get", "create", "delete"], "apiGroups": [""], "resources": ["pods", "x/scale"]}),
            ),
            rule(json!({"verbs": ["get"], "nonResourceURLs": ["/a"]})),
            rule(
                json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"]}),
            ),
        ];
        assert_eq!(
            missing(&[owned], &wanted),
            [
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["create" "delete"]}"#,
                r#"{APIGroups:[""], Resources:["x/scale"], Verbs:["create" "delete"]}"#,
                r#"{NonResourceURLs:["/a"], Verbs:["get"]}"#,
            ]
        );
        let named = rule(
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"]}),
        );
        assert_eq!(
            missing(
                &[named],
                &[rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}))]
            ),
            [r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#]
        );
        assert!(missing(&Rule::full_authority(), &wanted).is_empty());
    }

    #[test]
    fn a_rule_about_one_subresource_of_all_resources_covers_it_for_each() {
        let owned = [rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/status"]}))];
        let on = |resource: &str| {
            [rule(json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": [resource]}))]
        };
        assert!(missing(&owned, &on("deployments/status")).is_empty());
        assert!(missing(&owned, &on("*/status")).is_empty());
        for other in ["deployments", "deployments/scale", "*", "status"] {
            assert_eq!(missing(&owned, &on(other)).len(), 1, "{other}");
        }
    }

    #[test]
    fn equal_rules_of_many_roles_are_compared_once() {
        let texts = |count: usize| (0..count).map(|at| format!("t{at}")).collect::<Vec<String>>();
        let wanted =
            [rule(json!({"verbs": texts(20), "apiGroups": texts(25), "resources": texts(39)}))];
        let owned = rule(json!({"verbs": ["get"], "apiGroups": texts(25), "resources": texts(39)}));
        let many = vec![owned.clone(); 1_500];
        assert_eq!(missing(&many, &wanted).len(), 25 * 39);
        let different = |at| Rule { verbs: vec![format!("v{at}")].into(), ..owned.clone() };
        let many: Vec<Rule> = (0..1_500).map(different).collect();
        let found = GrantedRights::of(&many).missing(&wanted);
        assert_eq!(found, Err(TooComplex::Comparisons));
    }
}
