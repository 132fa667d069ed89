//! [`Selection`]: the controllers that run, as in `--controllers=*,-daemonset`.
//!
//! ```
//! use controllers::Selection;
//!
//! assert!(Selection::parse(&["none"]).is_ok());
//! let unknown = Selection::parse(&["*", "-daemonsets"]).unwrap_err();
//! let message = "there is no controller \"daemonsets\": did you mean \"daemonset\"?";
//! assert_eq!(unknown.to_string(), message);
//! ```

use crate::controller_table::{CONTROLLERS, ControllerDescriptor};

/// The controllers of Kubernetes whose work the API server does itself. They are on, also if no
/// controller runs, unless they are turned off by name.
pub const OF_THE_SERVER: [&str; 2] = [RESOURCE_QUOTA, VALIDATING_ADMISSION_POLICY_STATUS];
/// Writes the usage of resource quotas to their status.
pub const RESOURCE_QUOTA: &str = "resourcequota-controller";
/// Checks the types of validating admission policies.
pub const VALIDATING_ADMISSION_POLICY_STATUS: &str = "validatingadmissionpolicy-status-controller";

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// The names of the controllers that run.
    running: Vec<&'static str>,
    /// The controllers [of the server](OF_THE_SERVER) that are turned off.
    off_in_server: Vec<&'static str>,
}

/// A selection that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSelection {
    /// A name that no controller has.
    #[error(
        "there is no controller {0:?}{suggestion}",
        suggestion = match nearest(.0) {
            Some(near) => format!(": did you mean {near:?}?"),
            None => format!("; the controllers are {}", all_names().join(", ")),
        }
    )]
    Unknown(String),
    /// Controllers are turned off, but none on.
    #[error("{0:?} turns off a controller, but none is on: use \"*,{0}\"")]
    OnlyOff(String),
    /// `none` beside other names.
    #[error("\"none\" cannot stand beside other controllers")]
    NoneAndOthers,
}

impl Selection {
    /// All controllers.
    pub fn all() -> Self {
        Self { running: names(), off_in_server: Vec::new() }
    }

    /// Parses names: `*` for all controllers, `name` and `-name` for one, and `none`. A name decides
    /// before `*`, independent of their order, as in Kubernetes.
    pub fn parse<S: AsRef<str>>(items: &[S]) -> Result<Self, BadSelection> {
        let (mut all, mut none) = (false, false);
        let (mut enabled, mut disabled) = (Vec::new(), Vec::new());
        let mut off_in_server = Vec::new();
        for item in items.iter().map(AsRef::as_ref) {
            match item.strip_prefix('-') {
                _ if item == "*" => all = true,
                _ if item == "none" => none = true,
                Some(name) if let Some(name) = find_in_server(name) => off_in_server.push(name),
                None if find_in_server(item).is_some() => {}
                Some(name) => disabled.push(find(name)?.name),
                None => enabled.push(find(item)?.name),
            }
        }
        if none && (all || !enabled.is_empty() || !disabled.is_empty()) {
            return Err(BadSelection::NoneAndOthers);
        }
        if !all && enabled.is_empty() && !disabled.is_empty() {
            return Err(BadSelection::OnlyOff(format!("-{}", disabled[0])));
        }
        let is_selected = |name: &&str| enabled.contains(name) || all && !disabled.contains(name);
        let running = names().into_iter().filter(is_selected).collect();
        Ok(Self { running, off_in_server })
    }

    /// Whether a controller runs.
    pub fn contains(&self, controller: &ControllerDescriptor) -> bool {
        self.running.contains(&controller.name)
    }

    /// Whether the controller with this name, alias or short name runs.
    pub fn includes(&self, name: &str) -> bool {
        find(name).is_ok_and(|controller| self.contains(controller))
    }

    /// Whether the API server does the work of this one of its [controllers](OF_THE_SERVER).
    ///
    /// ```
    /// use controllers::Selection;
    /// use controllers::selection::RESOURCE_QUOTA;
    ///
    /// assert!(Selection::parse(&["none"]).unwrap().is_on_in_server(RESOURCE_QUOTA));
    /// let selection = Selection::parse(&["*", "-resourcequota"]).unwrap();
    /// assert!(!selection.is_on_in_server(RESOURCE_QUOTA));
    /// ```
    pub fn is_on_in_server(&self, name: &str) -> bool {
        !self.off_in_server.contains(&name)
    }

    /// Whether no controller runs.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}

fn names() -> Vec<&'static str> {
    CONTROLLERS.iter().map(|controller| controller.name).collect()
}

/// The names of all controllers and of those of the server, sorted.
fn all_names() -> Vec<&'static str> {
    let mut names = [names(), OF_THE_SERVER.to_vec()].concat();
    names.sort_unstable();
    names
}

/// The name or alias that is most similar to a word, if any is.
fn nearest(word: &str) -> Option<&'static str> {
    let names = all_names().into_iter();
    let names = names.flat_map(|name| [Some(name), name.strip_suffix("-controller")]).flatten();
    let aliases = CONTROLLERS.iter().flat_map(|controller| controller.aliases).copied();
    let with_distance = names.chain(aliases).map(|it| (strsim::damerau_levenshtein(word, it), it));
    // A third of the letters may be wrong.
    let is_similar = |(distance, name): &(usize, &str)| distance * 3 <= name.len();
    with_distance.filter(is_similar).min().map(|(_, name)| name)
}

fn find_in_server(name: &str) -> Option<&'static str> {
    let is_named =
        |known: &&&str| **known == name || known.strip_suffix("-controller") == Some(name);
    OF_THE_SERVER.iter().find(is_named).copied()
}

fn find(name: &str) -> Result<&'static ControllerDescriptor, BadSelection> {
    let is_named = |controller: &ControllerDescriptor| {
        controller.name == name
            || controller.name.strip_suffix("-controller") == Some(name)
            || controller.aliases.contains(&name)
    };
    let found = CONTROLLERS.iter().find(|controller| is_named(controller));
    found.copied().ok_or_else(|| BadSelection::Unknown(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_that_cannot_be_meant_is_refused() {
        let error = |items: &[&str]| Selection::parse(items).unwrap_err().to_string();
        assert_eq!(
            error(&["-daemonset"]),
            "\"-daemonset-controller\" turns off a controller, but none is on: use \"*,-daemonset-controller\""
        );
        for items in [["none", "job"], ["none", "*"], ["none", "-job"]] {
            assert_eq!(error(&items), "\"none\" cannot stand beside other controllers");
        }
        assert!(Selection::parse(&["none", "-resourcequota"]).unwrap().is_empty());
        for (unknown, suggestion) in [
            ("daemonsets", ": did you mean \"daemonset\"?"),
            ("-resource-quota", ": did you mean \"resourcequota\"?"),
        ] {
            let name = unknown.trim_start_matches('-');
            let expect = format!("there is no controller {name:?}{suggestion}");
            assert_eq!(error(&[unknown]), expect);
        }
        let start = "there is no controller \"nosuch\"; the controllers are certificatesigning";
        assert!(error(&["nosuch"]).starts_with(start), "{}", error(&["nosuch"]));
        assert!(!Selection::parse(&["job", "-daemonset"]).unwrap().includes("daemonset"));
    }
}
