//! The size of the status of a pod: a pod can have thousands of containers, each with a message.

use std::borrow::Cow;

use crate::pod_admission::Rejection;
use crate::pod_view::{PodStatus, PodView};

/// The bytes of the messages of all containers that wait. Kubelet limits those of containers that
/// have ended in the same way, to 12 KiB.
const MAX_MESSAGES: usize = 64 << 10;

/// Shortens the messages of containers that wait, if they are long together.
pub(crate) fn shorten_messages(status: &mut PodStatus) {
    let all = status
        .init_container_statuses
        .iter_mut()
        .chain(&mut status.container_statuses)
        .chain(&mut status.ephemeral_container_statuses);
    let waiting = all.filter_map(|it| it.state.waiting.as_mut().map(|it| &mut it.message));
    let messages: Vec<&mut String> = waiting.filter(|it| !it.is_empty()).collect();
    if messages.iter().map(|it| it.len()).sum::<usize>() <= MAX_MESSAGES {
        return;
    }
    let limit = MAX_MESSAGES / messages.len();
    for message in messages {
        message.truncate(message.floor_char_boundary(limit));
    }
}

/// The rejection of a pod whose status does not fit beside its spec.
pub(crate) fn too_large(pod: &PodView) -> Rejection {
    let containers = pod.spec.init_containers.len() + pod.spec.containers.len();
    let message =
        format!("the status of its {containers} containers is larger than the server accepts");
    Rejection { reason: Cow::Borrowed("StatusTooLarge"), message: Cow::Owned(message) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(count: usize, message: &str) -> Vec<String> {
        let container = json!({"name": "c", "state": {"waiting": {"message": message}}});
        let status = json!({"containerStatuses": vec![container; count]});
        let mut status: PodStatus = serde_json::from_value(status).unwrap();
        shorten_messages(&mut status);
        let state = |it: crate::pod_view::ContainerStatus| it.state.waiting.unwrap().message;
        status.container_statuses.into_iter().map(state).collect()
    }

    #[test]
    fn the_messages_of_many_containers_are_short() {
        let message = "é".repeat(100);
        assert_eq!(messages(3, &message), vec![message.clone(); 3]);
        assert_eq!(messages(3000, &message), vec!["é".repeat(10); 3000]);
    }
}
