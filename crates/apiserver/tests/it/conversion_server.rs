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
    mood: Mutex<Mood>,
    calls: Mutex<Vec<Call>>,
    called: Notify,
}

/// A call of the webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) review: String,
    pub(crate) wanted: String,
    pub(crate) objects: usize,
}

/// The behavior of the webhook.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Converts the objects.
    #[default]
    Good,
    /// Responds with a failure and its message.
    Failing,
    /// Never responds.
    Silent,
    /// Responds with another document.
    Rubbish,
    /// Responds with a body over the size limit.
    Endless,
    /// Responds with an error code.
    Broken,
    /// Responds with another uid.
    OtherUid,
    /// Omits an object.
    OneLess,
    /// Changes the names of objects.
    Renaming,
    /// Does not convert the objects.
    Unchanged,
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
            "caBundle": self.https.bundle()});
        json!({"strategy": "Webhook",
            "webhook": {"clientConfig": config, "conversionReviewVersions": reviews}})
    }

    /// Changes the behavior.
    pub(crate) fn set(&self, mood: Mood) {
        *self.state.mood.lock().unwrap() = mood;
    }

    /// The calls since the previous call of this function.
    pub(crate) fn calls(&self) -> Vec<Call> {
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
    let wanted = text(&review["request"]["desiredAPIVersion"]);
    let objects = review["request"]["objects"].as_array().unwrap();
    let api_version = text(&review["apiVersion"]);
    let call = Call {
        review: api_version.rsplit('/').next().unwrap().to_owned(),
        wanted: wanted.rsplit('/').next().unwrap().to_owned(),
        objects: objects.len(),
    };
    state.calls.lock().unwrap().push(call);
    state.called.notify_one();
    let mood = *state.mood.lock().unwrap();
    match mood {
        Mood::Silent => std::future::pending().await,
        Mood::Rubbish => return Response::new("rubbish".into()),
        Mood::Endless => return Response::new(vec![b' '; 4 << 20].into()),
        Mood::Broken => return Response::builder().status(500).body("broken".into()).unwrap(),
        _ => {}
    }
    let mut converted: Vec<Value> = objects.iter().map(|it| convert(it, &wanted, mood)).collect();
    if mood == Mood::OneLess {
        converted.pop();
    }
    let uid =
        if mood == Mood::OtherUid { "other".into() } else { review["request"]["uid"].clone() };
    let result = match mood {
        Mood::Failing => json!({"status": "Failure", "message": "not today"}),
        _ => json!({"status": "Success"}),
    };
    let review = json!({"apiVersion": api_version, "kind": "ConversionReview",
        "response": {"uid": uid, "result": result, "convertedObjects": converted}});
    Response::new(review.to_string().into())
}

fn convert(object: &Value, wanted: &str, mood: Mood) -> Value {
    let mut object = object.clone();
    if mood == Mood::Unchanged {
        return object;
    }
    if mood == Mood::Renaming {
        object["metadata"]["name"] = "renamed".into();
    }
    object["apiVersion"] = wanted.into();
    let Some(spec) = object["spec"].as_object_mut() else { return object };
    if wanted.ends_with("v2") {
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
