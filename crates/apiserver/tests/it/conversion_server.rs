//! A conversion webhook over HTTPS with configurable faults.
//!
//! It converts the kind Gate: `spec.endpoint` of v1 is `spec.host` and `spec.port` of v2.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use tokio::sync::Notify;

use crate::https::Https;
use machinery::{Value, json};

/// The DNS name of the webhook's service.
pub(crate) const SERVICE: &str = "hook.default.svc";

/// See the [module documentation](self).
pub(crate) struct ConversionServer {
    pub(crate) https: Https,
    state: Arc<ConversionServerState>,
}

#[derive(Default)]
struct ConversionServerState {
    reply: Mutex<ConversionReply>,
    calls: Mutex<Vec<ConversionCall>>,
    called: Notify,
}

/// A call of the webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConversionCall {
    /// The version of the `ConversionReview`.
    pub(crate) review: String,
    /// The version of `desiredAPIVersion`.
    pub(crate) desired: String,
    /// The number of objects.
    pub(crate) objects: usize,
}

/// What the webhook responds with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ConversionReply {
    /// The converted objects.
    #[default]
    Converted,
    /// A result with the status `Failure` and a message.
    Failure,
    /// Nothing: the request hangs.
    Never,
    /// A body that is not JSON.
    NotJson,
    /// A body over the size limit.
    TooLarge,
    /// The HTTP status 500.
    InternalError,
    /// The converted objects, with another uid than the request.
    OtherUid,
    /// The converted objects but one.
    MissingObject,
    /// The converted objects with other names.
    Renamed,
    /// The objects of the request.
    Unconverted,
    /// The converted objects, of which each has this JSON at this pointer.
    Changed(&'static str, &'static str),
    /// The converted objects, and one of them again.
    ExtraObject,
    /// The converted objects in the opposite order.
    Reversed,
    /// A list in a list, and so on.
    Nested,
    /// The HTTP status 307 with the address of the webhook.
    Redirect,
}

impl ConversionServer {
    /// Starts the webhook on a free port.
    pub(crate) async fn start() -> Self {
        let state = Arc::new(ConversionServerState::default());
        let own = Arc::clone(&state);
        let https = Https::start(SERVICE, move |request| answer(Arc::clone(&own), request)).await;
        Self { https, state }
    }

    /// The `conversion` of a CRD for this webhook, with the supported review versions.
    pub(crate) fn conversion(&self, reviews: &Value) -> Value {
        let config = json!({"url": format!("https://{}/convert", self.https.address),
            "caBundle": self.https.ca_bundle()});
        json!({"strategy": "Webhook",
            "webhook": {"clientConfig": config, "conversionReviewVersions": reviews}})
    }

    /// Sets the responses to later requests.
    pub(crate) fn set_reply(&self, reply: ConversionReply) {
        *self.state.reply.lock().unwrap() = reply;
    }

    /// The calls since the previous call of this function.
    pub(crate) fn calls(&self) -> Vec<ConversionCall> {
        std::mem::take(&mut *self.state.calls.lock().unwrap())
    }

    /// Waits for a call.
    pub(crate) async fn called(&self) {
        self.state.called.notified().await;
    }
}

async fn answer(state: Arc<ConversionServerState>, request: Request<Bytes>) -> Response<Bytes> {
    assert_eq!(request.uri().path(), "/convert");
    let review: Value = serde_json::from_slice(request.body()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let desired_api_version = text(&review["request"]["desiredAPIVersion"]);
    let objects = review["request"]["objects"].as_array().unwrap();
    let api_version = text(&review["apiVersion"]);
    let call = ConversionCall {
        review: api_version.rsplit('/').next().unwrap().to_owned(),
        desired: desired_api_version.rsplit('/').next().unwrap().to_owned(),
        objects: objects.len(),
    };
    state.calls.lock().unwrap().push(call);
    state.called.notify_one();
    let reply = *state.reply.lock().unwrap();
    match reply {
        ConversionReply::Never => std::future::pending().await,
        ConversionReply::NotJson => return Response::new("not JSON".into()),
        ConversionReply::TooLarge => return Response::new(vec![b' '; 4 << 20].into()),
        ConversionReply::InternalError => {
            return Response::builder().status(500).body("broken".into()).unwrap();
        }
        ConversionReply::Nested => return Response::new(vec![b'['; 1 << 20].into()),
        ConversionReply::Redirect => {
            let response = Response::builder().status(307).header("location", "/convert?again");
            return response.body(Bytes::new()).unwrap();
        }
        _ => {}
    }
    let mut converted: Vec<Value> =
        objects.iter().map(|it| convert(it, &desired_api_version, reply)).collect();
    match reply {
        ConversionReply::MissingObject => drop(converted.pop()),
        ConversionReply::ExtraObject => converted.extend(converted.first().cloned()),
        ConversionReply::Reversed => converted.reverse(),
        ConversionReply::Changed(pointer, json) => {
            for object in &mut converted {
                set(object, pointer, json);
            }
        }
        _ => {}
    }
    let uid = if reply == ConversionReply::OtherUid {
        "other".into()
    } else {
        review["request"]["uid"].clone()
    };
    let result = match reply {
        ConversionReply::Failure => json!({"status": "Failure", "message": "not today"}),
        _ => json!({"status": "Success"}),
    };
    let review = json!({"apiVersion": api_version, "kind": "ConversionReview",
        "response": {"uid": uid, "result": result, "convertedObjects": converted}});
    Response::new(review.to_string().into())
}

/// Sets the field at a pointer, whose parent exists.
fn set(object: &mut Value, pointer: &str, json: &str) {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap();
    parent[field] = serde_json::from_str(json).unwrap();
}

fn convert(object: &Value, desired_api_version: &str, reply: ConversionReply) -> Value {
    let mut object = object.clone();
    if reply == ConversionReply::Unconverted {
        return object;
    }
    if reply == ConversionReply::Renamed {
        object["metadata"]["name"] = "renamed".into();
    }
    object["apiVersion"] = desired_api_version.into();
    let Some(spec) = object["spec"].as_object_mut() else { return object };
    if desired_api_version.ends_with("v2") {
        if let Some(endpoint) = spec.remove("endpoint") {
            let (host, port) = endpoint.as_str().unwrap().split_once(':').unwrap();
            spec.insert("host".to_owned(), host.into());
            spec.insert("port".to_owned(), port.parse::<u16>().unwrap().into());
        }
        object["metadata"]["labels"]["seen-in"] = "v2".into();
    } else if let (Some(host), Some(port)) = (spec.remove("host"), spec.remove("port")) {
        let endpoint = format!("{}:{port}", host.as_str().unwrap());
        spec.insert("endpoint".to_owned(), endpoint.into());
        if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
            labels.remove("seen-in");
        }
    }
    object
}
