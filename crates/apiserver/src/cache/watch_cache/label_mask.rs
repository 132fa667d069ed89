//! [`LabelMask`]: a Bloom filter of the labels of an object.
//!
//! The mask is beside the key of the object in the snapshot, so that a list by label skips most
//! objects without reading them: of ten thousand objects, a hundred of which match, about four hundred
//! are read. An object that has all the bits may or may not have the labels.

use machinery::selector::{LabelSelector, Operator};

/// See the [module documentation](self).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LabelMask(u64);

impl LabelMask {
    /// The mask of labels in `key=value` lines.
    pub(super) fn of(labels: &str) -> Self {
        labels.split_terminator('\n').fold(Self::default(), |mask, line| {
            let key = line.split_once('=').map_or(line, |(key, _)| key);
            Self(mask.0 | bits(&[key]) | bits(&[line]))
        })
    }

    /// The bits of every object that a selector can match.
    pub(crate) fn required_by(selector: &LabelSelector) -> Self {
        let required =
            selector.requirements().iter().map(|it| match (it.operator, &it.values[..]) {
                (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => {
                    bits(&[&it.key, "=", value])
                }
                (
                    Operator::Exists | Operator::In | Operator::GreaterThan | Operator::LessThan,
                    _,
                ) => bits(&[&it.key]),
                _ => 0,
            });
        Self(required.fold(0, |all, bits| all | bits))
    }

    /// Whether an object with this mask may have the labels of the mask `required`.
    pub(crate) fn may_have(self, required: Self) -> bool {
        self.0 & required.0 == required.0
    }
}

/// Two of the 64 bits, chosen by the FNV-1a hash of the text.
fn bits(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|it| it.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    1 << (hash >> 58) | 1 << (hash >> 52 & 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_have(labels: &str, selector: &str) -> bool {
        let required = LabelMask::required_by(&LabelSelector::parse(selector).unwrap());
        LabelMask::of(labels).may_have(required)
    }

    #[test]
    fn a_matching_object_is_never_skipped() {
        for selector in [
            "",
            "app=web",
            "app==web",
            "app in (web)",
            "app in (web,db)",
            "app",
            "!tier",
            "app!=db",
            "tier!=x",
            "tier notin (x)",
            "n>1",
            "n<3",
            "app=web,n=2",
            "empty=",
        ] {
            assert!(may_have("app=web\nempty=\nn=2\n", selector), "{selector}");
        }
    }

    #[test]
    fn most_objects_that_do_not_match_are_skipped() {
        let skipped =
            (0..1000).filter(|it| !may_have(&format!("app=web-{it}\n"), "app=db")).count();
        assert!(skipped > 950, "{skipped}");
        assert!(!may_have("", "app"));
    }
}
