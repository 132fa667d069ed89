//! Which plugins there are, in Kubernetes' order and under its names, and which of them are on.

use std::collections::HashSet;

/// A plugin that is built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plugin {
    NamespaceLifecycle,
    LimitPodHardAntiAffinityTopology,
    LimitRanger,
    ServiceAccount,
    TaintNodesByCondition,
    AlwaysPullImages,
    PodSecurity,
    Priority,
    DefaultTolerationSeconds,
    DefaultStorageClass,
    StorageObjectInUseProtection,
    OwnerReferencesPermissionEnforcement,
    PersistentVolumeClaimResize,
    RuntimeClass,
    CertificateSubjectRestriction,
    DefaultIngressClass,
    DenyServiceExternalIps,
    Initializers,
    MutatingAdmissionPolicy,
    MutatingAdmissionWebhook,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionWebhook,
    ResourceQuota,
}

/// What becomes of a plugin if nobody says anything.
#[derive(Debug, Clone, Copy)]
enum Standing {
    On(Plugin),
    Off(Plugin),
    /// Kubernetes has it, and we do not.
    Absent,
}

use Standing::{Absent, Off, On};

/// All plugins of kube-apiserver, in its order. Initializers stand where Kubernetes 1.9 had them:
/// first among those that are configured by objects.
const KNOWN: &[(&str, Standing)] = &[
    ("AlwaysAdmit", Absent),
    ("NamespaceAutoProvision", Absent),
    ("NamespaceLifecycle", On(Plugin::NamespaceLifecycle)),
    ("NamespaceExists", Absent),
    ("LimitPodHardAntiAffinityTopology", Off(Plugin::LimitPodHardAntiAffinityTopology)),
    ("LimitRanger", On(Plugin::LimitRanger)),
    ("ServiceAccount", On(Plugin::ServiceAccount)),
    ("NodeRestriction", Absent),
    ("TaintNodesByCondition", On(Plugin::TaintNodesByCondition)),
    ("AlwaysPullImages", Off(Plugin::AlwaysPullImages)),
    ("ImagePolicyWebhook", Absent),
    ("PodSecurity", On(Plugin::PodSecurity)),
    ("PodNodeSelector", Absent),
    ("Priority", On(Plugin::Priority)),
    ("DefaultTolerationSeconds", On(Plugin::DefaultTolerationSeconds)),
    ("PodTolerationRestriction", Absent),
    ("EventRateLimit", Absent),
    ("ExtendedResourceToleration", Absent),
    ("DefaultStorageClass", On(Plugin::DefaultStorageClass)),
    ("StorageObjectInUseProtection", On(Plugin::StorageObjectInUseProtection)),
    ("PodGroupProtection", Absent),
    ("OwnerReferencesPermissionEnforcement", Off(Plugin::OwnerReferencesPermissionEnforcement)),
    ("PersistentVolumeClaimResize", On(Plugin::PersistentVolumeClaimResize)),
    ("RuntimeClass", On(Plugin::RuntimeClass)),
    ("CertificateApproval", Absent),
    ("CertificateSigning", Absent),
    ("ClusterTrustBundleAttest", Absent),
    ("CertificateSubjectRestriction", On(Plugin::CertificateSubjectRestriction)),
    ("DefaultIngressClass", On(Plugin::DefaultIngressClass)),
    ("DenyServiceExternalIPs", Off(Plugin::DenyServiceExternalIps)),
    ("PodTopologyLabels", Absent),
    ("NodeDeclaredFeatureValidator", Absent),
    ("PodResizeValidator", Absent),
    ("Initializers", On(Plugin::Initializers)),
    ("MutatingAdmissionPolicy", On(Plugin::MutatingAdmissionPolicy)),
    ("MutatingAdmissionWebhook", On(Plugin::MutatingAdmissionWebhook)),
    ("ValidatingAdmissionPolicy", On(Plugin::ValidatingAdmissionPolicy)),
    ("ValidatingAdmissionWebhook", On(Plugin::ValidatingAdmissionWebhook)),
    ("ResourceQuota", On(Plugin::ResourceQuota)),
    ("AlwaysDeny", Absent),
];

/// A choice of plugins that cannot be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadPlugins {
    /// Look for a slip of the pen.
    #[error("there is no admission plugin {0:?}; there are: {known}", known = available())]
    Unknown(String),
    /// Leave it out.
    #[error("the admission plugin {0} cannot be enabled: it is not there yet")]
    Absent(String),
    /// Decide.
    #[error("the admission plugin {0} is to be both enabled and disabled")]
    Both(String),
}

/// The names of the plugins that can be enabled and disabled.
fn available() -> String {
    let ours = KNOWN.iter().filter(|(_, standing)| !matches!(standing, Absent));
    let mut names: Vec<&str> = ours.map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.join(", ")
}

/// The plugins that are on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plugins {
    /// One bit for each variant of [`Plugin`].
    on: u32,
    /// Whether the account of a pod must exist.
    pub strict_accounts: bool,
}

impl Plugins {
    /// Kubernetes' defaults, with some more and some fewer.
    ///
    /// Nobody creates the account `default` of a namespace yet, so accounts must exist only if
    /// somebody names that plugin.
    pub(crate) fn choose(enabled: &[String], disabled: &[String]) -> Result<Self, BadPlugins> {
        let named = |names: &[String]| {
            for name in names {
                if !KNOWN.iter().any(|(known, _)| known == name) {
                    return Err(BadPlugins::Unknown(name.clone()));
                }
            }
            Ok(names.iter().cloned().collect::<HashSet<String>>())
        };
        let (enabled, disabled) = (named(enabled)?, named(disabled)?);
        if let Some(name) = enabled.intersection(&disabled).min() {
            return Err(BadPlugins::Both(name.clone()));
        }
        let mut on = 0;
        for (name, standing) in KNOWN {
            let is_wanted = enabled.contains(*name);
            match standing {
                Absent if is_wanted => return Err(BadPlugins::Absent((*name).to_owned())),
                On(plugin) if !disabled.contains(*name) => on |= bit(*plugin),
                Off(plugin) if is_wanted => on |= bit(*plugin),
                Absent | On(_) | Off(_) => {}
            }
        }
        Ok(Self { on, strict_accounts: enabled.contains("ServiceAccount") })
    }

    /// Whether a plugin is on.
    pub(crate) fn has(self, plugin: Plugin) -> bool {
        self.on & bit(plugin) != 0
    }
}

fn bit(plugin: Plugin) -> u32 {
    1 << plugin as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(enabled: &[&str], disabled: &[&str]) -> Result<Plugins, String> {
        let owned = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        Plugins::choose(&owned(enabled), &owned(disabled)).map_err(|it| it.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_kubernetes() {
        let plugins = choose(&[], &[]).unwrap();
        assert!(plugins.has(Plugin::NamespaceLifecycle) && plugins.has(Plugin::ResourceQuota));
        assert!(!plugins.has(Plugin::AlwaysPullImages) && !plugins.strict_accounts);
        let plugins = choose(&["AlwaysPullImages", "ServiceAccount"], &["Priority"]).unwrap();
        assert!(plugins.has(Plugin::AlwaysPullImages) && plugins.strict_accounts);
        assert!(!plugins.has(Plugin::Priority));
        assert!(choose(&[], &["EventRateLimit"]).is_ok());
    }

    #[test]
    fn what_cannot_be_chosen_is_told() {
        let why = |enabled: &[&str], disabled: &[&str]| choose(enabled, disabled).unwrap_err();
        let unknown = why(&[], &["Priorty"]);
        let begins = r#"there is no admission plugin "Priorty"; there are: AlwaysPullImages, "#;
        assert!(unknown.starts_with(begins) && unknown.contains(", Priority, "), "{unknown}");
        assert!(!unknown.contains("EventRateLimit"), "{unknown}");
        assert_eq!(
            why(&["EventRateLimit"], &[]),
            "the admission plugin EventRateLimit cannot be enabled: it is not there yet"
        );
        assert_eq!(
            why(&["Priority"], &["Priority"]),
            "the admission plugin Priority is to be both enabled and disabled"
        );
    }
}
