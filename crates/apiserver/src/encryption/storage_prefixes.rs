//! [`StoragePrefixes`]: the resource of a key in the store.

use std::collections::HashMap;

use machinery::GroupResource;
use types::Resource;

const ROOT: &str = "/registry/";

/// The resources of built-in kinds by the prefix of their keys. See the [module
/// documentation](self).
pub(super) struct StoragePrefixes(HashMap<String, GroupResource>);

impl StoragePrefixes {
    /// The prefixes of built-in resources, also of those that are not served.
    pub(super) fn new(builtin: &[Resource]) -> Self {
        let named = |it: &Resource| (it.prefix.clone(), GroupResource::new(&it.group, &it.plural));
        Self(builtin.iter().map(named).collect())
    }

    /// Whether a built-in group has no such plural. Those of other groups may be custom resources.
    pub(super) fn lacks(&self, wanted: &GroupResource) -> bool {
        let GroupResource { group, resource } = wanted;
        let mut of_group = self.0.values().filter(|it| it.group == *group).peekable();
        resource != "*" && of_group.peek().is_some() && of_group.all(|it| it.resource != *resource)
    }

    /// The group and the plural of the objects at `key`: those of a built-in resource with this
    /// prefix, or of the custom resource in `/registry/<group>/<plural>/…`.
    pub(super) fn resource_of<'a>(&'a self, key: &'a str) -> Option<(&'a str, &'a str)> {
        let rest = key.strip_prefix(ROOT)?;
        let first = rest.find('/')?;
        if let Some(found) = self.0.get(&key[..ROOT.len() + first]) {
            return Some((&found.group, &found.resource));
        }
        let second = first + 1 + rest[first + 1..].find('/')?;
        match self.0.get(&key[..ROOT.len() + second]) {
            Some(found) => Some((&found.group, &found.resource)),
            None => Some((&rest[..first], &rest[first + 1..second])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plurals_of_built_in_groups_are_known() {
        let prefixes = StoragePrefixes::new(&kinds::table::builtin());
        for (group, plural, lacks) in [
            ("", "secrets", false),
            ("", "secretz", true),
            ("", "*", false),
            ("apps", "deployments", false),
            ("apps", "secrets", true),
            ("*", "*", false),
            ("example.com", "things", false),
        ] {
            let wanted = GroupResource::new(group, plural);
            assert_eq!(prefixes.lacks(&wanted), lacks, "{wanted}");
        }
    }

    #[test]
    fn keys_belong_to_the_resource_of_their_prefix() {
        let prefixes = StoragePrefixes::new(&kinds::table::builtin());
        let cases = [
            ("/registry/secrets/default/a", Some(("", "secrets"))),
            ("/registry/minions/a", Some(("", "nodes"))),
            ("/registry/services/specs/default/a", Some(("", "services"))),
            ("/registry/services/endpoints/default/a", Some(("", "endpoints"))),
            ("/registry/deployments/default/a", Some(("apps", "deployments"))),
            ("/registry/events/default/a", Some(("", "events"))),
            (
                "/registry/apiregistration.k8s.io/apiservices/v1.",
                Some(("apiregistration.k8s.io", "apiservices")),
            ),
            ("/registry/example.com/things/default/a", Some(("example.com", "things"))),
            ("/registry/example.com/things/a", Some(("example.com", "things"))),
            ("/elsewhere", None),
        ];
        for (key, expected) in cases {
            assert_eq!(prefixes.resource_of(key), expected, "{key}");
        }
    }
}
