//! Numbers that may be percentages, such as `maxUnavailable` of a rolling update.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How a percentage becomes a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    Up,
    Down,
}

/// The number, or the percentage of `total`. A negative number is zero.
pub(crate) fn scaled(
    value: &IntOrString,
    total: usize,
    rounding: Rounding,
) -> Result<usize, String> {
    let text = match value {
        IntOrString::Int(number) => return Ok(usize::try_from(*number).unwrap_or(0)),
        IntOrString::String(text) => text,
    };
    let percent = text.strip_suffix('%').and_then(|percent| percent.parse::<usize>().ok());
    let percent = percent.ok_or_else(|| {
        format!("invalid value for IntOrString: invalid value {text:?}: not a percentage")
    })?;
    let hundredths = percent.saturating_mul(total);
    Ok(match rounding {
        Rounding::Up => hundredths.div_ceil(100),
        Rounding::Down => hundredths / 100,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_rounded_as_the_field_requires() {
        let percent = |text: &str| IntOrString::String(text.to_owned());
        for (value, total, rounding, expected) in [
            (IntOrString::Int(3), 10, Rounding::Up, Ok(3)),
            (percent("25%"), 10, Rounding::Up, Ok(3)),
            (percent("25%"), 10, Rounding::Down, Ok(2)),
            (percent("100%"), 0, Rounding::Up, Ok(0)),
        ] {
            assert_eq!(scaled(&value, total, rounding), expected, "{value:?} of {total}");
        }
        assert!(scaled(&percent("many"), 10, Rounding::Up).is_err());
    }
}
