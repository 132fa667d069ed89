//! The values of the annotations with which a user decides what becomes of a simulated pod, and what
//! is wrong with them. See [`PodPlan`](crate::pod_plan::PodPlan) for their meaning.

use std::time::Duration;

use crate::pod_view::PodView;
use machinery::field_path::quote;
use machinery::go_duration;

/// The prefix of the annotations about all containers of a pod.
const PREFIX: &str = "sampan.dev/";

/// The prefix of the annotations about the exit code of one container.
const EXIT_CODE_PREFIX: &str = "exit-code.sampan.dev/";

/// The largest number of annotations of a pod that are reported.
const MAX_REPORTED: usize = 10;

/// The largest number of characters of a key or value that are reported.
const MAX_SHOWN: usize = 80;

/// The value of an annotation about all containers.
pub(crate) fn text<'a>(pod: &'a PodView, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.get(&format!("{PREFIX}{name}")).map(String::as_str)
}

/// The exit code of one container, if it has its own.
pub(crate) fn own_exit_code(pod: &PodView, container: &str) -> Option<i32> {
    exit_code(pod.metadata.annotations.get(&format!("{EXIT_CODE_PREFIX}{container}"))?)
}

/// `30s`, `1m30s`, `1.5h`, `500ms`, `0`
pub(crate) fn duration(text: &str) -> Option<Duration> {
    go_duration::parse_duration(text).ok()
}

/// 0 to 255
pub(crate) fn exit_code(text: &str) -> Option<i32> {
    text.parse::<u8>().ok().map(i32::from)
}

/// `true` or `false`
pub(crate) fn flag(text: &str) -> Option<bool> {
    text.parse().ok()
}

/// A word in CamelCase, as the reasons of Kubernetes are.
pub(crate) fn reason(text: &str) -> Option<&str> {
    let is_word = text.chars().all(|c| c.is_ascii_alphanumeric());
    (is_word && text.starts_with(|c: char| c.is_ascii_alphabetic())).then_some(text)
}

/// What is wrong with the annotations of a pod: a message for each of the first wrong ones.
pub(crate) fn problems(pod: &PodView) -> Vec<String> {
    let annotations = pod.metadata.annotations.iter();
    annotations.filter_map(|(key, value)| problem(pod, key, value)).take(MAX_REPORTED).collect()
}

fn problem(pod: &PodView, key: &str, value: &str) -> Option<String> {
    let why = if let Some(container) = key.strip_prefix(EXIT_CODE_PREFIX) {
        let mut all = pod.spec.containers.iter().chain(&pod.spec.init_containers);
        if !all.any(|it| it.name == container) {
            return Some(format!("{}: the pod has no such container; ignored", shown(key)));
        }
        exit_code(value).is_none().then_some(NO_EXIT_CODE)
    } else {
        match key.strip_prefix(PREFIX)? {
            "start-after" | "init-duration" | "ready-after" | "run-for" | "termination" => {
                duration(value).is_none().then_some("is not a duration such as 30s or 500ms")
            }
            "exit-code" => exit_code(value).is_none().then_some(NO_EXIT_CODE),
            "ready" => flag(value).is_none().then_some("is neither true nor false"),
            "waiting" => {
                reason(value).is_none().then_some("is not a reason such as ImagePullBackOff")
            }
            _ => return Some(format!("{}: there is no such annotation; ignored", shown(key))),
        }
    };
    Some(format!("{key}: {} {}; ignored", quote(&shown(value)), why?))
}

const NO_EXIT_CODE: &str = "is not an exit code from 0 to 255";

/// The beginning of a text that may be long.
fn shown(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems_of(key: &str, value: &str) -> Vec<String> {
        let pod = json!({"metadata": {"annotations": {key: value}},
            "spec": {"containers": [{"name": "main"}], "initContainers": [{"name": "init"}]}});
        problems(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn a_wrong_annotation_is_named_with_what_is_expected() {
        let check = |key: &str, value: &str, expect: &str| {
            assert_eq!(problems_of(key, value), [format!("{expect}; ignored")]);
        };
        for value in ["five", "3", "-3s", "", "1d"] {
            let expect =
                format!("sampan.dev/run-for: \"{value}\" is not a duration such as 30s or 500ms");
            check("sampan.dev/run-for", value, &expect);
        }
        for value in ["abc", "999", "-1", "256"] {
            let expect = format!("\"{value}\" is not an exit code from 0 to 255");
            check("sampan.dev/exit-code", value, &format!("sampan.dev/exit-code: {expect}"));
            let key = "exit-code.sampan.dev/init";
            check(key, value, &format!("{key}: {expect}"));
        }
        check("sampan.dev/ready", "nope", "sampan.dev/ready: \"nope\" is neither true nor false");
        check(
            "sampan.dev/waiting",
            "not a reason!",
            "sampan.dev/waiting: \"not a reason!\" is not a reason such as ImagePullBackOff",
        );
        check("sampan.dev/exitcode", "1", "sampan.dev/exitcode: there is no such annotation");
        check(
            "exit-code.sampan.dev/nosuch",
            "1",
            "exit-code.sampan.dev/nosuch: the pod has no such container",
        );
    }

    #[test]
    fn correct_annotations_and_those_of_others_are_not_reported() {
        for (key, value) in [
            ("sampan.dev/start-after", "1m30s"),
            ("sampan.dev/termination", "500ms"),
            ("sampan.dev/ready-after", "1.5h"),
            ("sampan.dev/init-duration", "0"),
            ("sampan.dev/exit-code", "255"),
            ("exit-code.sampan.dev/init", "0"),
            ("sampan.dev/ready", "true"),
            ("sampan.dev/waiting", "ImagePullBackOff"),
            ("example.com/run-for", "three"),
        ] {
            assert_eq!(problems_of(key, value), Vec::<String>::new(), "{key}");
        }
    }

    #[test]
    fn a_long_value_is_cut() {
        let found = problems_of("sampan.dev/ready", &"ä".repeat(1_000));
        assert_eq!(
            found,
            [format!(
                "sampan.dev/ready: \"{}...\" is neither true nor false; ignored",
                "ä".repeat(80)
            )]
        );
    }
}
