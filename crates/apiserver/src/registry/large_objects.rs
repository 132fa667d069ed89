//! Decides which work on stored objects needs so much CPU time that it would delay other requests,
//! and runs it in the flow of the request's user.

use super::scope::RequestScope;
use crate::flow_control;
use crate::storage::catalog::ServedResource;

/// The maximum size of a body or a stored object that is processed on the calling worker. It takes
/// less than a millisecond.
pub(crate) const MAX_INLINE_OBJECT: usize = 32 << 10;

/// The maximum total size of objects that are processed on the calling worker. It takes less than a
/// millisecond even if each object is decoded.
const MAX_INLINE_LIST: usize = 256 << 10;

/// Whether the stored object that the request names exceeds [`MAX_INLINE_OBJECT`].
pub(crate) fn has_large_object(scope: &RequestScope) -> bool {
    !scope.path.name.is_empty()
        && scope.served.cache.get(&scope.key()).is_some_and(|it| it.len() > MAX_INLINE_OBJECT)
}

/// Whether the objects of a namespace, or all objects if it is "", exceed [`MAX_INLINE_LIST`] in
/// total.
pub(crate) fn has_large_objects(served: &ServedResource, namespace: &str) -> bool {
    let mut bytes = 0;
    served.cache.snapshot().under(&served.key(namespace, ""), None).any(|it| {
        bytes += it.len();
        bytes > MAX_INLINE_LIST
    })
}

/// Runs `work`, outside of the calling worker if it is expensive. It is boxed before anything else: a
/// future that is passed on by value takes its size at every level.
pub(crate) fn offload_if<F: Future>(
    is_expensive: bool,
    scope: &RequestScope,
    work: F,
) -> impl Future<Output = F::Output> {
    let work = Box::pin(work);
    async move {
        if !is_expensive {
            return work.await;
        }
        let flow = flow_control::large_request_flow(&scope.user);
        scope.storage.offload.run(flow.as_deref(), work).await
    }
}
