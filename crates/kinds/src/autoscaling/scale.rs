//! `Scale`: the columns of the subresource of that name.

use machinery::fields::{number, top};
use machinery::{Object, Value};
use types::columns::{AGE, NAME, age, integer};
use types::resource::{Column, Columns, Now};

/// What `kubectl get --subresource scale` prints.
pub static SCALE_COLUMNS: Columns = Columns::Fixed(
    &[
        Column { format: "", ..NAME },
        integer("Desired", "The number of replicas that is wanted."),
        integer("Available", "The number of replicas that was observed."),
        AGE,
    ],
    cells,
);

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let replicas = |part: &str| number(top(object, part), "replicas").into();
    vec![object.name().into(), replicas("spec"), replicas("status"), age(object, now)]
}
