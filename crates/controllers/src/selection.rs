//! [`Selection`]: the controllers that run, as in `--controllers=*,-daemonset`.
//!
//! ```
//! use controllers::Selection;
//!
//! assert!(Selection::parse(&["none"]).is_ok());
//! let unknown = Selection::parse(&["*", "-daemonsets"]).unwrap_err();
//! assert!(unknown.to_string().starts_with("there is no controller \"daemonsets\""));
//! ```

use crate::controller_table::{CONTROLLERS, ControllerDescriptor};

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection(Vec<&'static str>);

/// A name in a selection that no controller has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no controller {name:?}; the controllers are {}", names().join(", "))]
pub struct UnknownController {
    /// The name.
    pub name: String,
}

impl Selection {
    /// All controllers.
    pub fn all() -> Self {
        Self(names())
    }

    /// Parses names: `*` for all controllers, `name` and `-name` for one, and `none`. A name decides
    /// before `*`, independent of their order, as in Kubernetes.
    pub fn parse<S: AsRef<str>>(items: &[S]) -> Result<Self, UnknownController> {
        let (mut all, mut enabled, mut disabled) = (false, Vec::new(), Vec::new());
        for item in items.iter().map(AsRef::as_ref) {
            match item.strip_prefix('-') {
                _ if item == "*" => all = true,
                _ if item == "none" => {}
                Some(name) => disabled.push(find(name)?.name),
                None => enabled.push(find(item)?.name),
            }
        }
        let is_selected = |name: &&str| enabled.contains(name) || all && !disabled.contains(name);
        Ok(Self(names().into_iter().filter(is_selected).collect()))
    }

    /// Whether a controller runs.
    pub fn contains(&self, controller: &ControllerDescriptor) -> bool {
        self.0.contains(&controller.name)
    }

    /// Whether the controller with this name, alias or short name runs.
    pub fn includes(&self, name: &str) -> bool {
        find(name).is_ok_and(|controller| self.contains(controller))
    }

    /// Whether no controller runs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn names() -> Vec<&'static str> {
    CONTROLLERS.iter().map(|controller| controller.name).collect()
}

fn find(name: &str) -> Result<&'static ControllerDescriptor, UnknownController> {
    let is_named = |controller: &ControllerDescriptor| {
        controller.name == name
            || controller.name.strip_suffix("-controller") == Some(name)
            || controller.aliases.contains(&name)
    };
    let found = CONTROLLERS.iter().find(|controller| is_named(controller));
    found.copied().ok_or_else(|| UnknownController { name: name.to_owned() })
}
