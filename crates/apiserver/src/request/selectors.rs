//! [`Selectors`]: the requirements of the field and label selectors of a request, for authorizers.

use super::Query;
use machinery::selector::{FieldRequirement, FieldSelector, LabelRequirement, LabelSelector};

/// See the [module documentation](self). All requirements must hold; a selector that cannot be parsed
/// has none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selectors {
    /// The requirements on fields.
    pub fields: Vec<FieldRequirement>,
    /// The requirements on labels.
    pub labels: Vec<LabelRequirement>,
}

impl Selectors {
    /// The selectors in the parameters of a request for a collection; None without requirements.
    pub(super) fn of(query: &Query) -> Option<Box<Self>> {
        Self::parse(query.text("fieldSelector"), query.text("labelSelector")).map(Box::new)
    }

    /// Parses two selectors, each of which may be empty; None without requirements.
    pub fn parse(fields: &str, labels: &str) -> Option<Self> {
        if fields.is_empty() && labels.is_empty() {
            return None;
        }
        let fields = FieldSelector::parse(fields).map(|it| it.requirements().to_vec());
        let labels = LabelSelector::parse(labels).map(|it| it.requirements().to_vec());
        Self { fields: fields.unwrap_or_default(), labels: labels.unwrap_or_default() }.non_empty()
    }

    /// The selectors, if they have requirements.
    pub fn non_empty(self) -> Option<Self> {
        (!self.fields.is_empty() || !self.labels.is_empty()).then_some(self)
    }

    /// Whether only objects with this value of the field are selected.
    pub fn requires(&self, field: &str, value: &str) -> bool {
        self.fields.iter().any(|it| it.equal && it.field == field && it.value == value)
    }

    /// The name that selected objects must have, if it can be a name in a path.
    pub(super) fn name(&self) -> Option<&str> {
        let mut fields = self.fields.iter();
        let name = &fields.find(|it| it.equal && it.field == "metadata.name")?.value;
        let is_segment = name != "." && name != ".." && !name.contains(['/', '%']);
        is_segment.then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_that_cannot_be_parsed_has_no_requirements() {
        assert_eq!(Selectors::parse("", ""), None);
        assert_eq!(Selectors::parse("a", "a in"), None);
        let selectors = Selectors::parse("spec.nodeName=a", "a in").unwrap();
        assert!(selectors.requires("spec.nodeName", "a") && selectors.labels.is_empty());
        assert_eq!(Selectors::parse("a", "x=y,z").unwrap().labels.len(), 2);
    }

    #[test]
    fn only_an_equality_requires_a_value() {
        let requires = |text: &str| Selectors::parse(text, "").unwrap().requires("f", "a");
        assert!(requires("f=a") && requires("f==a,g=b"));
        assert!(!requires("f!=a") && !requires("f=b") && !requires("g=a"));
    }
}
