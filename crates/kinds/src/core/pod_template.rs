//! `PodTemplate`: a pod template that is stored as an object of its own.

use super::pod::{template_warnings, validate_template};
use crate::table;
use crate::validation::workload::columns::{containers, labels};
use crate::validation::workload::template_defaults;
use machinery::fields::{at, top};
use machinery::{ErrorList, Object, Path, Value};
use types::columns::{NAME, column};
use types::resource::{Column, Columns, Now, Resource, Strategy};

/// The resource of the kind `PodTemplate`.
pub fn resource() -> Resource {
    table::resource(
        "",
        "PodTemplate",
        "podtemplates",
        &STRATEGY,
        table::v1("core/v1.PodTemplate", Columns::Fixed(COLUMNS, cells)),
    )
}

static STRATEGY: Strategy = Strategy {
    defaults: |template| template_defaults(template.map_mut()),
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    generation: true,
    returns_deleted: true,
    warnings,
    update_warnings: Some(|new, old| {
        if new.generation() == old.generation() { Vec::new() } else { warnings(new) }
    }),
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    column("Containers", "Names of each container in the template."),
    column("Images", "Images referenced by each container in the template."),
    column("Pod Labels", "The labels for the pod template."),
];

fn cells(object: &Object, _: &Now) -> Vec<Value> {
    let template = top(object, "template");
    let [names, images] = containers(template);
    vec![object.name().into(), names, images, labels(at(template, &["metadata"]), "labels")]
}

fn validate(object: &Object, errors: &mut ErrorList) {
    validate_template(errors, &Path::root("template"), top(object, "template"));
}

fn warnings(object: &Object) -> Vec<String> {
    let mut warnings = Vec::new();
    let template = top(object, "template");
    let (metadata, spec) = (at(template, &["metadata"]), at(template, &["spec"]));
    template_warnings(&mut warnings, &Path::root("template"), metadata, spec);
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{defaulted, object, refusals};
    use machinery::json;

    #[test]
    fn a_template_is_validated_and_defaulted_like_a_pod() {
        assert_eq!(refusals(&STRATEGY, json!({})), ["template.spec.containers: Required value"]);
        let template = defaulted(&STRATEGY, json!({}));
        assert_eq!(template["template"]["spec"]["restartPolicy"], "Always");
    }

    #[test]
    fn the_table_shows_containers_images_and_labels() {
        let template = object(json!({"metadata": {"name": "t"}, "template": {"metadata":
            {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}));
        assert_eq!(
            Value::from(cells(&template, &Now { unix_seconds: 0 })),
            json!(["t", "c", "i", "a=b"])
        );
    }
}
