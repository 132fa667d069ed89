//! [`Claims`]: the claims of a service account token, and their validation.
//!
//! Upstream: `pkg/serviceaccount/claims.go`.

use super::{LEEWAY, ReferencedObject, USERNAME_PREFIX};
use crate::auth::authentication::User;
use machinery::{GroupResource, Status, Value, json};

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claims {
    /// The account's namespace.
    pub namespace: String,
    /// The account's name.
    pub name: String,
    /// The account's uid: the tokens of a deleted account are not valid for a new one of its name.
    pub uid: String,
    /// The audiences of the token.
    pub audiences: Vec<String>,
    /// The time of issue, in seconds since 1970.
    pub issued: i64,
    /// The time before which the token is not valid, in seconds since 1970.
    pub not_before: i64,
    /// The time of expiry, in seconds since 1970.
    pub expires: i64,
    /// The ID of the token (`jti`).
    pub id: String,
    /// The pod that the token is bound to.
    pub pod: Option<Reference>,
    /// The secret that the token is bound to.
    pub secret: Option<Reference>,
    /// The node of the pod; without a pod, the node that the token is bound to.
    pub node: Option<Reference>,
    /// The time of expiry before the lifetime was extended.
    pub warn_after: Option<i64>,
}

/// A reference of a token to an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reference {
    /// The name of the object.
    pub name: String,
    /// The uid of the object; empty for a node that does not exist.
    pub uid: String,
}

/// Finds an object of the core group by resource, namespace and name.
pub type Lookup<'a> = &'a dyn Fn(&str, &str, &str) -> Option<ReferencedObject>;

impl Claims {
    /// The name of the user.
    pub(in crate::auth::authentication) fn subject(&self) -> String {
        format!("{USERNAME_PREFIX}{}:{}", self.namespace, self.name)
    }

    /// The private claims (`kubernetes.io`).
    pub(super) fn to_private(&self) -> Value {
        let reference = |name: &str, uid: &str| match uid {
            "" => json!({"name": name}),
            uid => json!({"name": name, "uid": uid}),
        };
        let mut claims = json!({"namespace": self.namespace,
            "serviceaccount": reference(&self.name, &self.uid)});
        for (field, bound) in [("pod", &self.pod), ("secret", &self.secret), ("node", &self.node)] {
            if let Some(bound) = bound {
                claims[field] = reference(&bound.name, &bound.uid);
            }
        }
        if let Some(time) = self.warn_after {
            claims["warnafter"] = time.into();
        }
        claims
    }

    /// Reads what [`to_private`](Self::to_private) wrote; None if a time is not a number.
    pub(super) fn from_private(claims: &Value) -> Option<Self> {
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let reference = |field: &str| {
            let value = claims.get(field)?;
            Some(Reference { name: text(value, "name"), uid: text(value, "uid") })
        };
        let account = reference("serviceaccount").unwrap_or_default();
        let warn_after = match &claims["warnafter"] {
            Value::Null => None,
            // Upstream: a fraction is cut off.
            #[allow(clippy::cast_possible_truncation, reason = "as Go truncates it")]
            time => Some(time.as_f64()? as i64),
        };
        Some(Self {
            namespace: text(claims, "namespace"),
            name: account.name,
            uid: account.uid,
            pod: reference("pod"),
            secret: reference("secret"),
            node: reference("node"),
            warn_after,
            ..Self::default()
        })
    }

    /// Validates that the lifetime includes `now`. The error is upstream's message.
    pub(in crate::auth::authentication) fn check_lifetime(&self, now: i64) -> Result<(), String> {
        let why = if now - LEEWAY > self.expires {
            "service account token has expired"
        } else if now + LEEWAY < self.not_before {
            "service account token is not valid yet"
        } else if now + LEEWAY < self.issued {
            "service account token is issued in the future"
        } else {
            return Ok(());
        };
        Err(why.to_owned())
    }

    /// Validates that the account and the bound objects still exist. The error is upstream's message.
    pub(in crate::auth::authentication) fn validate(
        &self,
        now: i64,
        lookup: Lookup<'_>,
    ) -> Result<(), String> {
        let Self { namespace, name, uid, .. } = self;
        let is_gone =
            |found: &ReferencedObject| found.deletion_timestamp.is_some_and(|it| it < now - LEEWAY);
        let Some(account) = lookup("serviceaccounts", namespace, name) else {
            let what = GroupResource::new("", "serviceaccounts");
            return Err(Status::not_found(&what, name).message);
        };
        if account.uid != *uid {
            let found = account.uid;
            return Err(format!("service account UID ({found}) does not match claim ({uid})"));
        }
        if is_gone(&account) {
            return Err(format!("service account {namespace}/{name} has been deleted"));
        }
        let node = self.node.as_ref().filter(|_| self.pod.is_none());
        let bound = [
            ("secrets", "secret", namespace.as_str(), self.secret.as_ref()),
            ("pods", "pod", namespace.as_str(), self.pod.as_ref()),
            ("nodes", "node", "", node),
        ];
        for (resource, kind, namespace, reference) in bound {
            let Some(Reference { name, uid }) = reference else { continue };
            let found =
                lookup(resource, namespace, name).filter(|it| it.uid != *uid || !is_gone(it));
            let Some(ReferencedObject { uid: found, .. }) = found else {
                return Err("service account token has been invalidated".to_owned());
            };
            if found != *uid {
                return Err(format!(
                    "{kind} UID ({found}) does not match service account {kind} ref claim ({uid})"
                ));
            }
        }
        Ok(())
    }

    /// The ID of the token as a credential; empty if the token has none.
    pub(crate) fn credential_id(&self) -> String {
        if self.id.is_empty() { String::new() } else { format!("JTI={}", self.id) }
    }

    /// The user that the token authenticates.
    pub fn user(&self) -> User {
        let mut user = super::user(&self.namespace, &self.name, &self.uid);
        let mut extra = |key: &str, value: &str| {
            if !value.is_empty() {
                let key = format!("authentication.kubernetes.io/{key}");
                user.extra.insert(key, vec![value.to_owned()]);
            }
        };
        extra("credential-id", &self.credential_id());
        for (kind, bound) in [("pod", &self.pod), ("node", &self.node)] {
            let Some(Reference { name, uid }) = bound else { continue };
            extra(&format!("{kind}-name"), name);
            extra(&format!("{kind}-uid"), uid);
        }
        user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        let reference = |name: &str| Some(Reference { name: name.to_owned(), uid: "1".to_owned() });
        Claims {
            namespace: "ns".to_owned(),
            name: "robot".to_owned(),
            uid: "1".to_owned(),
            id: "x".to_owned(),
            pod: reference("p"),
            node: reference("n"),
            warn_after: Some(7),
            ..Claims::default()
        }
    }

    /// Validates the claims at second 1000. `pod` has the uid and the deletion timestamp of the pod; None
    /// if the pod does not exist.
    fn check(pod: Option<(&str, Option<i64>)>, expect: Result<(), &str>) {
        let lookup = |resource: &str, namespace: &str, name: &str| {
            let (uid, deletion_timestamp) = match (resource, namespace, name) {
                ("serviceaccounts", "ns", "robot") => ("1", None),
                ("pods", "ns", "p") => pod?,
                _ => return None,
            };
            Some(ReferencedObject {
                uid: uid.to_owned(),
                deletion_timestamp,
                ..ReferencedObject::default()
            })
        };
        assert_eq!(claims().validate(1000, &lookup), expect.map_err(str::to_owned));
    }

    #[test]
    fn a_bound_token_is_invalid_after_the_deletion_of_its_pod() {
        check(Some(("1", None)), Ok(()));
        check(Some(("1", Some(940))), Ok(()));
        check(Some(("1", Some(939))), Err("service account token has been invalidated"));
        check(None, Err("service account token has been invalidated"));
        check(
            Some(("2", None)),
            Err("pod UID (2) does not match service account pod ref claim (1)"),
        );
    }

    #[test]
    fn the_user_of_a_bound_token_has_pod_and_node_as_extra() {
        let user = claims().user();
        let extra =
            |key: &str| user.extra[&format!("authentication.kubernetes.io/{key}")].join(",");
        assert_eq!((extra("pod-name"), extra("pod-uid")), ("p".to_owned(), "1".to_owned()));
        assert_eq!((extra("node-name"), extra("node-uid")), ("n".to_owned(), "1".to_owned()));
    }

    #[test]
    fn private_claims_are_read_as_they_were_written() {
        let private = claims().to_private();
        assert_eq!(private["pod"], json!({"name": "p", "uid": "1"}));
        let read = Claims::from_private(&private).unwrap();
        assert_eq!(Claims { id: "x".to_owned(), ..read }, claims());
    }

    #[test]
    fn a_time_is_a_number_or_missing() {
        let warn_after = |time: Value| {
            let claims = Claims::from_private(&json!({"warnafter": time}));
            claims.map(|it| it.warn_after)
        };
        assert_eq!(warn_after(json!(7.9)), Some(Some(7)));
        assert_eq!(warn_after(Value::Null), Some(None));
        assert_eq!(warn_after(json!("a")), None);
    }

    #[test]
    fn a_token_without_an_id_is_no_named_credential() {
        let extra = |id: &str| Claims { id: id.to_owned(), ..Claims::default() }.user().extra;
        let key = "authentication.kubernetes.io/credential-id";
        assert_eq!(extra("x")[key], ["JTI=x"]);
        assert_eq!(extra("").get(key), None);
    }
}
