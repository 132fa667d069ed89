//! What a kubelet says about a container that cannot start, for the annotation `sampan.dev/waiting`.
//!
//! Upstream: `kubelet/images/image_manager.go` and `kubelet/kuberuntime/kuberuntime_container.go`.

use runtime::recorder::EventType;

/// The error of a runtime that is not there.
const ERROR: &str = "simulated by the annotation sampan.dev/waiting";

/// An event about a container: its type, reason and message.
pub(crate) type WaitingEvent = (EventType, &'static str, String);

/// Whether a container waits for this reason before its pod has an address.
pub(crate) fn is_before_sandbox(reason: &str) -> bool {
    matches!(reason, "ContainerCreating" | "PodInitializing")
}

/// The message of a container with this image that waits for this reason. That of `CrashLoopBackOff`
/// depends on the time.
pub(crate) fn message(reason: &str, image: &str) -> String {
    match reason {
        "ImagePullBackOff" => format!("Back-off pulling image {image:?}: ErrImagePull: {ERROR}"),
        "ErrImageNeverPull" => {
            format!("Container image {image:?} is not present with pull policy of Never")
        }
        "ImageInspectError" => format!("Failed to inspect image {image:?}: {ERROR}"),
        "InvalidImageName" => format!(
            "Failed to apply default image tag {image:?}: couldn't parse image name {image:?}: invalid reference format"
        ),
        "ErrImagePull"
        | "CreateContainerConfigError"
        | "CreateContainerError"
        | "PreCreateHookError"
        | "PreStartHookError"
        | "RunContainerError" => ERROR.to_owned(),
        _ => String::new(),
    }
}

/// The events about a container with this image that waits for this reason. Those of
/// `CrashLoopBackOff` are those of a container that was restarted.
pub(crate) fn events(reason: &str, image: &str) -> Vec<WaitingEvent> {
    use EventType::{Normal, Warning};
    let failed = |error: &str| (Warning, "Failed", format!("Error: {error}"));
    let pulling = || {
        [
            (Normal, "Pulling", format!("Pulling image {image:?}")),
            (Warning, "Failed", format!("Failed to pull image {image:?}: {ERROR}")),
            failed("ErrImagePull"),
        ]
    };
    let created = (Normal, "Created", "Container created".to_owned());
    match reason {
        "ErrImagePull" => pulling().into(),
        "ImagePullBackOff" => {
            let back_off = (Normal, "BackOff", format!("Back-off pulling image {image:?}"));
            pulling().into_iter().chain([back_off, failed(reason)]).collect()
        }
        "ErrImageNeverPull" => {
            vec![(Warning, "ErrImageNeverPull", message(reason, image)), failed(reason)]
        }
        "ImageInspectError" | "InvalidImageName" => {
            vec![(Warning, "InspectFailed", message(reason, image)), failed(reason)]
        }
        "CreateContainerConfigError" | "CreateContainerError" => {
            vec![(Normal, "Pulled", pulled(image)), failed(ERROR)]
        }
        "RunContainerError" => vec![(Normal, "Pulled", pulled(image)), created, failed(ERROR)],
        _ => Vec::new(),
    }
}

/// The message of the event that an image is there.
pub(crate) fn pulled(image: &str) -> String {
    format!("Container image {image:?} already present on machine and can be accessed by the pod")
}
