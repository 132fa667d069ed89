//! `CronJob`: jobs that are created on a schedule.

use super::job::{add_spec_warnings, spec_defaults, validate_spec};
use super::time_zone;
use crate::table;
use crate::validation::go_struct;
use crate::validation::rules::{add_invalid, at_least_zero, one_of};
use crate::validation::workload::columns::{CONTAINERS, IMAGES, SELECTOR, containers};
use crate::validation::workload::{self, SPEC};
use machinery::cron::CronSchedule;
use machinery::fields::{
    at, default_text, default_value, flag, list, map_mut, number, part, same, text, top,
};
use machinery::{ErrorList, Object, Path, Value, json};
use types::columns::{AGE, NAME, age, boolean, column, integer, selector, since};
use types::resource::{Column, Columns, Now, Resource, Strategy, Version, keep_status};

/// The maximum length of a name. The controller appends 11 characters, and a job's name has at most
/// 63.
const MAX_NAME: usize = 52;

/// The resource of the kind `CronJob`.
pub fn resource() -> Resource {
    let version =
        Version { status: true, ..table::v1("batch/v1.CronJob", Columns::Fixed(COLUMNS, cells)) };
    Resource {
        short_names: vec!["cj".to_owned()],
        categories: vec!["all".to_owned()],
        ..table::resource("batch", "CronJob", "cronjobs", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create: |cron_job| workload::reset_status(cron_job, json!({})),
    prepare_update: keep_status,
    validate,
    validate_update,
    generation: true,
    warnings: |cron_job| {
        let mut warnings = Vec::new();
        workload::warn_of_name(&mut warnings, cron_job.name());
        add_template_warnings(&mut warnings, cron_job);
        warnings
    },
    update_warnings: Some(update_warnings),
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    column("Schedule", "The schedule: minute, hour, day of the month, month, day of the week."),
    column(
        "Timezone",
        "The time zone of the schedule, which is that of the controller by default.",
    ),
    boolean("Suspend", "Whether the controller creates no further jobs; running jobs continue."),
    integer("Active", "A list of pointers to currently running jobs."),
    column(
        "Last Schedule",
        "The time since the controller last created a job, if it has created any.",
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn cells(cron_job: &Object, now: &Now) -> Vec<Value> {
    let (spec, status) = (top(cron_job, "spec"), top(cron_job, "status"));
    let job = at(spec, &["jobTemplate", "spec"]);
    let [names, images] = containers(at(job, &["template"]));
    let suspended = match part(spec, "suspend") {
        None => "<unset>",
        Some(_) if flag(spec, "suspend") => "True",
        Some(_) => "False",
    };
    let last = part(status, "lastScheduleTime").and_then(Value::as_str);
    vec![
        cron_job.name().into(),
        text(spec, "schedule").into(),
        part(spec, "timeZone").and_then(Value::as_str).unwrap_or("<none>").into(),
        suspended.into(),
        list(status, "active").len().into(),
        last.map_or_else(|| "<none>".to_owned(), |last| since(last, now)).into(),
        age(cron_job, now),
        names,
        images,
        selector(at(job, &["selector"])).into(),
    ]
}

fn defaults(cron_job: &mut Object) {
    let spec = cron_job.map_at(&["spec"]);
    default_text(spec, "concurrencyPolicy", "Allow");
    default_value(spec, "suspend", false.into());
    default_value(spec, "successfulJobsHistoryLimit", 3.into());
    default_value(spec, "failedJobsHistoryLimit", 1.into());
    default_value(spec, "jobTemplate", json!({}));
    if let Some(template) = map_mut(spec, "jobTemplate") {
        default_value(template, "spec", json!({}));
        if let Some(spec) = map_mut(template, "spec") {
            spec_defaults(spec);
        }
    }
}

fn validate(cron_job: &Object, errors: &mut ErrorList) {
    validate_change(top(cron_job, "spec"), None, errors);
    if cron_job.name().len() > MAX_NAME {
        let message = format!("must be no more than {MAX_NAME} characters");
        errors.invalid(&Path::root("metadata").child("name"), cron_job.name(), &message);
    }
}

fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate_change(top(new, "spec"), Some(top(old, "spec")), errors);
}

fn validate_change(spec: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    validate_schedule(errors, spec, old);
    let deadline = number(spec, "startingDeadlineSeconds");
    at_least_zero(errors, &SPEC.child("startingDeadlineSeconds"), deadline);
    let zone = |spec| at(spec, &["timeZone"]);
    let zone_changes = old.is_none_or(|old| !same(zone(old), zone(spec)));
    if let Some(name) = zone(spec).as_str().filter(|_| zone_changes) {
        add_invalid(errors, &SPEC.child("timeZone"), name, time_zone::validate(name));
    }
    let policies = &["Allow", "Forbid", "Replace"];
    let policy = text(spec, "concurrencyPolicy");
    one_of(errors, &SPEC.child("concurrencyPolicy"), policy, policies);
    validate_job_template(errors, at(spec, &["jobTemplate", "spec"]));
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        at_least_zero(errors, &SPEC.child(field), number(spec, field));
    }
}

fn validate_schedule(errors: &mut ErrorList, spec: &Value, old: Option<&Value>) {
    let path = SPEC.child("schedule");
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        return errors.declarative(|errors| errors.required(&path, ""));
    }
    if let Err(why) = CronSchedule::parse(schedule, time_zone::is_known) {
        errors.invalid(&path, schedule, &why);
    }
    let has_zone = |schedule: &str| schedule.contains("TZ");
    let had_zone = old.is_some_and(|old| has_zone(text(old, "schedule")));
    if has_zone(schedule) && !had_zone {
        let message = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.invalid(&path, schedule, message);
    } else if has_zone(schedule) && part(spec, "timeZone").is_some() {
        let message = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        errors.invalid(&path, schedule, message);
    }
}

/// Validates the job template, which cannot have a selector: each job gets a generated one.
fn validate_job_template(errors: &mut ErrorList, job: &Value) {
    let path = SPEC.child("jobTemplate");
    let path = path.child("spec");
    validate_spec(errors, &path, job);
    if let Some(selector) = part(job, "selector") {
        let message = "`selector` will be auto-generated";
        go_struct::invalid(errors, &path.child("selector"), "LabelSelector", selector, message);
    }
    if flag(job, "manualSelector") {
        errors.not_supported(&path.child("manualSelector"), true, &["nil", "false"]);
    }
}

fn add_template_warnings(out: &mut Vec<String>, cron_job: &Object) {
    let path = SPEC.child("jobTemplate");
    let job = at(top(cron_job, "spec"), &["jobTemplate", "spec"]);
    add_spec_warnings(out, &path.child("spec"), job);
}

fn update_warnings(new: &Object, old: &Object) -> Vec<String> {
    let mut warnings = Vec::new();
    if new.generation() != old.generation() {
        add_template_warnings(&mut warnings, new);
    }
    if text(top(new, "spec"), "schedule").contains("TZ") {
        let warning = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
        warnings.push(warning.to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{defaulted, object, refusals, refusals_of_update};

    fn cron_job(schedule: &str) -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"schedule": schedule, "jobTemplate": {"spec":
            {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}})
    }

    #[test]
    fn a_job_template_gets_the_defaults_of_pods_but_not_of_jobs() {
        let cron_job = defaulted(&STRATEGY, cron_job("@daily"));
        let job = &cron_job["spec"]["jobTemplate"]["spec"];
        assert_eq!(job.get("parallelism"), None);
        assert_eq!(job["template"]["spec"]["dnsPolicy"], "ClusterFirst");
        assert_eq!(cron_job["spec"]["concurrencyPolicy"], "Allow");
    }

    #[test]
    fn a_schedule_is_required_and_must_be_valid() {
        assert_eq!(refusals(&STRATEGY, cron_job("@daily")), Vec::<String>::new());
        assert_eq!(refusals(&STRATEGY, cron_job("")), ["spec.schedule: Required value"]);
        assert_eq!(
            refusals(&STRATEGY, cron_job("every day")),
            [
                r#"spec.schedule: Invalid value: "every day": expected exactly 5 fields, found 2: [every day]"#
            ]
        );
    }

    #[test]
    fn new_schedules_with_a_time_zone_and_unknown_zones_are_refused() {
        let zoned = cron_job("TZ=UTC 0 0 * * *");
        let refused = [
            r#"spec.schedule: Invalid value: "TZ=UTC 0 0 * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead"#,
        ];
        assert_eq!(refusals(&STRATEGY, zoned.clone()), refused);
        assert_eq!(
            refusals_of_update(&STRATEGY, zoned.clone(), zoned.clone()),
            Vec::<String>::new()
        );
        assert_eq!(refusals_of_update(&STRATEGY, zoned, cron_job("@daily")), refused);
        let mut unknown = cron_job("@daily");
        unknown["spec"]["timeZone"] = "Nowhere".into();
        assert_eq!(
            refusals(&STRATEGY, unknown),
            [r#"spec.timeZone: Invalid value: "Nowhere": unknown time zone Nowhere"#]
        );
    }

    #[test]
    fn a_new_name_has_at_most_52_characters() {
        let mut long = cron_job("@daily");
        long["metadata"]["name"] = "a".repeat(53).into();
        assert_eq!(refusals(&STRATEGY, long.clone()).len(), 1);
        assert_eq!(refusals_of_update(&STRATEGY, long.clone(), long), Vec::<String>::new());
    }

    #[test]
    fn a_job_template_cannot_have_a_selector() {
        let mut cron_job = cron_job("@daily");
        cron_job["spec"]["jobTemplate"]["spec"]["manualSelector"] = true.into();
        cron_job["spec"]["jobTemplate"]["spec"]["selector"] = json!({});
        assert_eq!(
            refusals(&STRATEGY, cron_job),
            [
                "spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated",
                r#"spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false""#,
            ]
        );
    }

    #[test]
    fn the_table_shows_schedule_active_jobs_and_last_schedule() {
        let mut cron_job = cron_job("@daily");
        cron_job["status"] = json!({"active": [{}], "lastScheduleTime": "1970-01-01T00:00:00Z"});
        let mut cells = cells(&object(cron_job), &Now { unix_seconds: 5 });
        cells.remove(6);
        assert_eq!(
            Value::from(cells),
            json!(["a", "@daily", "<none>", "<unset>", 1, "5s", "c", "i", "<none>"])
        );
    }
}
