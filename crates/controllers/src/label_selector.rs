//! Label selectors of API objects: their conversion, and the form that Go prints.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use machinery::selector::LabelSelector as Selector;

/// The selector of an object. `None` selects nothing, as in Kubernetes.
pub(crate) fn parse(selector: Option<&LabelSelector>) -> Result<Selector, String> {
    let Some(selector) = selector else { return Ok(Selector::nothing()) };
    let value = serde_json::to_value(selector).map_err(|error| error.to_string())?;
    Selector::from_value(&value)
}

/// The selector as Go prints it with `%v`, which messages contain.
pub(crate) fn go_text(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels = selector.match_labels.iter().flatten();
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}: {value},")).collect();
    let labels = labels.concat();
    let expressions = selector.match_expressions.iter().flatten();
    let expressions: Vec<String> = expressions
        .map(|it| {
            let values = it.values.as_deref().unwrap_or_default().join(" ");
            let (key, operator) = (&it.key, &it.operator);
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    let expressions = expressions.concat();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_is_printed_as_by_go() {
        let selector = json!({"matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "c", "operator": "In", "values": ["d", "e"]}]});
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        let expected = "&LabelSelector{MatchLabels:map[string]string{a: b,},\
            MatchExpressions:[]LabelSelectorRequirement{\
            LabelSelectorRequirement{Key:c,Operator:In,Values:[d e],},},}";
        assert_eq!(go_text(Some(&selector)), expected);
        assert_eq!(go_text(None), "nil");
    }
}
