//! The admission plugins of kube-apiserver, in its order and under its names, and the selection of
//! enabled plugins.

use std::collections::HashSet;

/// An admission plugin that is implemented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plugin {
    NamespaceLifecycle,
    LimitPodHardAntiAffinityTopology,
    LimitRanger,
    ServiceAccount,
    NodeRestriction,
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
    CertificateApproval,
    CertificateSigning,
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

/// Whether a plugin is enabled by default.
#[derive(Debug, Clone, Copy)]
enum DefaultState {
    On(Plugin),
    Off(Plugin),
    /// kube-apiserver has the plugin, and this server does not implement it.
    Unsupported,
}

use DefaultState::{Off, On, Unsupported};

/// All plugins of kube-apiserver, in its order. Initializers have the position that they had in
/// Kubernetes 1.9: first among the plugins that are configured by objects.
const ALL_PLUGINS: &[(&str, DefaultState)] = &[
    ("AlwaysAdmit", Unsupported),
    ("NamespaceAutoProvision", Unsupported),
    ("NamespaceLifecycle", On(Plugin::NamespaceLifecycle)),
    ("NamespaceExists", Unsupported),
    ("LimitPodHardAntiAffinityTopology", Off(Plugin::LimitPodHardAntiAffinityTopology)),
    ("LimitRanger", On(Plugin::LimitRanger)),
    ("ServiceAccount", On(Plugin::ServiceAccount)),
    ("NodeRestriction", Off(Plugin::NodeRestriction)),
    ("TaintNodesByCondition", On(Plugin::TaintNodesByCondition)),
    ("AlwaysPullImages", Off(Plugin::AlwaysPullImages)),
    ("ImagePolicyWebhook", Unsupported),
    ("PodSecurity", On(Plugin::PodSecurity)),
    ("PodNodeSelector", Unsupported),
    ("Priority", On(Plugin::Priority)),
    ("DefaultTolerationSeconds", On(Plugin::DefaultTolerationSeconds)),
    ("PodTolerationRestriction", Unsupported),
    ("EventRateLimit", Unsupported),
    ("ExtendedResourceToleration", Unsupported),
    ("DefaultStorageClass", On(Plugin::DefaultStorageClass)),
    ("StorageObjectInUseProtection", On(Plugin::StorageObjectInUseProtection)),
    ("PodGroupProtection", Unsupported),
    ("OwnerReferencesPermissionEnforcement", Off(Plugin::OwnerReferencesPermissionEnforcement)),
    ("PersistentVolumeClaimResize", On(Plugin::PersistentVolumeClaimResize)),
    ("RuntimeClass", On(Plugin::RuntimeClass)),
    ("CertificateApproval", On(Plugin::CertificateApproval)),
    ("CertificateSigning", On(Plugin::CertificateSigning)),
    ("ClusterTrustBundleAttest", Unsupported),
    ("CertificateSubjectRestriction", On(Plugin::CertificateSubjectRestriction)),
    ("DefaultIngressClass", On(Plugin::DefaultIngressClass)),
    ("DenyServiceExternalIPs", Off(Plugin::DenyServiceExternalIps)),
    ("PodTopologyLabels", Unsupported),
    ("NodeDeclaredFeatureValidator", Unsupported),
    ("PodResizeValidator", Unsupported),
    ("Initializers", On(Plugin::Initializers)),
    ("MutatingAdmissionPolicy", On(Plugin::MutatingAdmissionPolicy)),
    ("MutatingAdmissionWebhook", On(Plugin::MutatingAdmissionWebhook)),
    ("ValidatingAdmissionPolicy", On(Plugin::ValidatingAdmissionPolicy)),
    ("ValidatingAdmissionWebhook", On(Plugin::ValidatingAdmissionWebhook)),
    ("ResourceQuota", On(Plugin::ResourceQuota)),
    ("AlwaysDeny", Unsupported),
];

/// The flags that enable and disable plugins are invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PluginSelectionError {
    /// Check the spelling of the name.
    #[error("unknown admission plugin {0:?}; the known ones are: {known}", known = available())]
    Unknown(String),
    /// Do not enable the plugin.
    #[error("the admission plugin {0} cannot be enabled: it is not implemented")]
    Unsupported(String),
    /// Remove the plugin from one of the two flags.
    #[error("the admission plugin {0} is both enabled and disabled")]
    Both(String),
}

/// The names of the plugins that can be enabled and disabled.
fn available() -> String {
    let ours =
        ALL_PLUGINS.iter().filter(|(_, default_state)| !matches!(default_state, Unsupported));
    let mut names: Vec<&str> = ours.map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.join(", ")
}

/// The enabled plugins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plugins {
    /// One bit for each variant of [`Plugin`].
    enabled: u32,
    /// Whether the service account of a pod must exist.
    pub require_service_account: bool,
}

impl Plugins {
    /// Kubernetes' default plugins, with `enabled` added and `disabled` removed.
    ///
    /// The account of a pod must exist if `require_service_account` is set or the plugin
    /// `ServiceAccount` is enabled by name, unless that plugin is disabled.
    pub(crate) fn select(
        enabled: &[String],
        disabled: &[String],
        require_service_account: bool,
    ) -> Result<Self, PluginSelectionError> {
        let checked = |names: &[String]| {
            for name in names {
                if !ALL_PLUGINS.iter().any(|(known, _)| known == name) {
                    return Err(PluginSelectionError::Unknown(name.clone()));
                }
            }
            Ok(names.iter().cloned().collect::<HashSet<String>>())
        };
        let (enabled, disabled) = (checked(enabled)?, checked(disabled)?);
        if let Some(name) = enabled.intersection(&disabled).min() {
            return Err(PluginSelectionError::Both(name.clone()));
        }
        let mut enabled_bits = 0;
        for (name, default_state) in ALL_PLUGINS {
            let is_requested = enabled.contains(*name);
            match default_state {
                Unsupported if is_requested => {
                    return Err(PluginSelectionError::Unsupported((*name).to_owned()));
                }
                On(plugin) if !disabled.contains(*name) => enabled_bits |= bit(*plugin),
                Off(plugin) if is_requested => enabled_bits |= bit(*plugin),
                Unsupported | On(_) | Off(_) => {}
            }
        }
        let is_required = require_service_account || enabled.contains("ServiceAccount");
        Ok(Self {
            enabled: enabled_bits,
            require_service_account: is_required && !disabled.contains("ServiceAccount"),
        })
    }

    /// Whether a plugin is enabled.
    pub(crate) fn is_enabled(self, plugin: Plugin) -> bool {
        self.enabled & bit(plugin) != 0
    }
}

fn bit(plugin: Plugin) -> u32 {
    1 << plugin as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(enabled: &[&str], disabled: &[&str]) -> Result<Plugins, String> {
        let owned = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        Plugins::select(&owned(enabled), &owned(disabled), false).map_err(|it| it.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_kubernetes() {
        let plugins = select(&[], &[]).unwrap();
        assert!(
            plugins.is_enabled(Plugin::NamespaceLifecycle)
                && plugins.is_enabled(Plugin::ResourceQuota)
        );
        assert!(!plugins.is_enabled(Plugin::AlwaysPullImages) && !plugins.require_service_account);
        let plugins = select(&["AlwaysPullImages", "ServiceAccount"], &["Priority"]).unwrap();
        assert!(plugins.is_enabled(Plugin::AlwaysPullImages) && plugins.require_service_account);
        assert!(!plugins.is_enabled(Plugin::Priority));
        assert!(select(&[], &["EventRateLimit"]).is_ok());
    }

    #[test]
    fn a_disabled_plugin_requires_no_service_account() {
        let requires = |disabled: &[String]| {
            Plugins::select(&[], disabled, true).unwrap().require_service_account
        };
        assert!(requires(&[]));
        assert!(!requires(&["ServiceAccount".to_owned()]));
    }

    #[test]
    fn an_invalid_selection_of_plugins_is_an_error() {
        let why = |enabled: &[&str], disabled: &[&str]| select(enabled, disabled).unwrap_err();
        let unknown = why(&[], &["Priorty"]);
        let begins =
            r#"unknown admission plugin "Priorty"; the known ones are: AlwaysPullImages, "#;
        assert!(unknown.starts_with(begins) && unknown.contains(", Priority, "), "{unknown}");
        assert!(!unknown.contains("EventRateLimit"), "{unknown}");
        assert_eq!(
            why(&["EventRateLimit"], &[]),
            "the admission plugin EventRateLimit cannot be enabled: it is not implemented"
        );
        assert_eq!(
            why(&["Priority"], &["Priority"]),
            "the admission plugin Priority is both enabled and disabled"
        );
    }
}
