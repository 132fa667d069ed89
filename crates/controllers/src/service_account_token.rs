//! `serviceaccount-token-controller`: a secret of type `kubernetes.io/service-account-token` contains
//! a token of the account in its annotation, and is deleted with the account. A reference from an
//! account to a token secret that was deleted is removed. When the certificates that clients of the plane
//! trust change, all secrets get the new ones.
//!
//! It reads these secrets and service accounts, updates and deletes secrets, and updates service
//! accounts. It creates no secret: tokens for pods are not stored.
//!
//! There are two kinds of requests: `account` for all secrets of an account, and `account/secret` for
//! one secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::api_requests::{self, has_code, none_if_missing};
use crate::controller_context::{ControllerContext, selecting_field};
use crate::controller_manager::PROGRAM;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::metadata::Metadata;
use crate::root_ca_changes;
use crate::signers::{SignToken, TokenSubject};
use machinery::PolicyRule;
use runtime::informer::Item;
use runtime::{Action, Client, Controller, Failure, Lister, Mapper, Request};

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "serviceaccount-token-controller",
    aliases: &[],
    user: ControllerUser::Program(PROGRAM),
    rules: &[
        PolicyRule::new(&[""], &["secrets"], &["patch", "delete"]),
        PolicyRule::new(&[""], &["serviceaccounts"], &["patch"]),
    ],
    start,
};

const SECRET_TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// The index of token secrets by `namespace/account`.
const ACCOUNT_INDEX: &str = "account";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TokenSecretView {
    metadata: Metadata,
    data: BTreeMap<String, ByteString>,
}

impl TokenSecretView {
    fn annotation(&self, key: &str) -> &str {
        self.metadata.annotations.get(key).map_or("", String::as_str)
    }
}

/// The secret without its data.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Annotated {
    metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AccountView {
    metadata: Metadata,
    secrets: Vec<Value>,
}

struct State {
    client: Client,
    /// Reads accounts that are not in the cache yet.
    reader: Client,
    root_ca: watch::Receiver<String>,
    sign: SignToken,
    secrets: Lister<TokenSecretView>,
    accounts: Lister<AccountView>,
}

fn start(cx: &ControllerContext) {
    let selection = selecting_field("type", SECRET_TYPE);
    let secrets = cx.manager.informer_selecting::<Secret>(&selection);
    secrets.indexer().add_index(ACCOUNT_INDEX, |item| {
        account_name(item).map(|name| format!("{}/{name}", item.namespace())).into_iter().collect()
    });
    let state = State {
        client: cx.client.clone(),
        reader: cx.reader.clone(),
        root_ca: cx.options.root_ca.clone(),
        sign: Arc::clone(&cx.options.signers.token),
        secrets: secrets.lister(),
        accounts: cx.manager.informer::<ServiceAccount>().lister(),
    };
    let secret_request = Mapper::custom(|item| {
        let account = account_name(item).into_iter();
        account
            .map(|name| Request::new(item.namespace(), &format!("{name}/{}", item.name())))
            .collect()
    });
    let changed = root_ca_changes::requests(cx, &secrets, secret_request.clone());
    let controller = Controller::for_::<ServiceAccount>()
        .named(cx.name)
        .channel(changed)
        .watches::<Secret>(secret_request)
        .selecting(selection)
        .reconcile(reconcile, state);
    cx.manager.add(controller);
}

/// The account of a token secret.
fn account_name(item: &Item) -> Option<String> {
    let secret: Annotated = item.decode().ok()?;
    secret.metadata.annotations.get(ACCOUNT_NAME).filter(|name| !name.is_empty()).cloned()
}

async fn reconcile(request: Request, cx: Arc<State>) -> Result<Action, Failure> {
    let namespace = request.namespace();
    // The name of an account in an annotation may be any text, that of a secret has no slash.
    let Some((account, secret)) = request.name().rsplit_once('/') else {
        let index = format!("{namespace}/{}", request.name());
        for secret in cx.secrets.by_index(ACCOUNT_INDEX, &index)?.objects {
            cx.sync(&secret).await?;
        }
        return Ok(Action::Done);
    };
    match cx.secrets.get(namespace, secret)? {
        Some(secret) => cx.sync(&secret).await?,
        None => cx.remove_reference(namespace, account, secret).await?,
    }
    Ok(Action::Done)
}

impl State {
    /// Completes a secret, or deletes it if its account does not exist.
    async fn sync(&self, secret: &TokenSecretView) -> Result<(), Failure> {
        let Metadata { namespace, name, uid, .. } = &secret.metadata;
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        match self.account_of(secret).await? {
            Some(account) => self.complete(secret, &account, &path).await,
            None => match api_requests::delete(&self.client, &path, uid).await {
                Ok(_) => Ok(()),
                Err(error) if has_code(&error, 404) || has_code(&error, 409) => Ok(()),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// The account of a secret. It is read from the server if it is not in the cache, since the
    /// secret may have been created together with it.
    async fn account_of(&self, secret: &TokenSecretView) -> Result<Option<AccountView>, Failure> {
        let namespace = &secret.metadata.namespace;
        let (name, uid) = (secret.annotation(ACCOUNT_NAME), secret.annotation(ACCOUNT_UID));
        let is_same = |account: &AccountView| uid.is_empty() || account.metadata.uid == uid;
        if let Some(account) = self.accounts.get(namespace, name)?.filter(is_same) {
            return Ok(Some(account));
        }
        if !machinery::names::dns1123_subdomain(name).is_empty() {
            return Ok(None);
        }
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}");
        let found: Option<AccountView> = api_requests::get(&self.reader, &path).await?;
        Ok(found.filter(is_same))
    }

    /// Adds what is missing in a secret.
    async fn complete(
        &self,
        secret: &TokenSecretView,
        account: &AccountView,
        path: &str,
    ) -> Result<(), Failure> {
        let is_missing = |key: &str| secret.data.get(key).is_none_or(|value| value.0.is_empty());
        let mut data = BTreeMap::new();
        let root_ca = ByteString(self.root_ca.borrow().clone().into_bytes());
        if !root_ca.0.is_empty() && secret.data.get("ca.crt") != Some(&root_ca) {
            data.insert("ca.crt", root_ca);
        }
        let namespace = &secret.metadata.namespace;
        if is_missing("namespace") {
            data.insert("namespace", ByteString(namespace.clone().into_bytes()));
        }
        if is_missing("token") {
            let subject = TokenSubject {
                namespace: namespace.clone(),
                account: account.metadata.name.clone(),
                account_uid: account.metadata.uid.clone(),
                secret: secret.metadata.name.clone(),
            };
            let token = (self.sign)(&subject).map_err(Failure::transient)?;
            data.insert("token", ByteString(token.into_bytes()));
        }
        if data.is_empty() {
            return Ok(());
        }
        let patch = json!({
            "metadata": {
                "resourceVersion": secret.metadata.resource_version,
                "annotations": {
                    ACCOUNT_NAME: account.metadata.name,
                    ACCOUNT_UID: account.metadata.uid,
                },
            },
            "data": data,
        });
        match api_requests::merge::<Value>(&self.client, path, &patch).await {
            Ok(_) => Ok(()),
            // The change of the secret causes another request.
            Err(error) if has_code(&error, 404) || has_code(&error, 409) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the reference from an account to a secret that was deleted.
    async fn remove_reference(
        &self,
        namespace: &str,
        account: &str,
        secret: &str,
    ) -> Result<(), Failure> {
        let Some(AccountView { metadata, mut secrets }) = self.accounts.get(namespace, account)?
        else {
            return Ok(());
        };
        let count = secrets.len();
        secrets.retain(|reference| reference["name"] != secret);
        if secrets.len() == count {
            return Ok(());
        }
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}");
        let patch = json!({
            "metadata": {"resourceVersion": metadata.resource_version, "uid": metadata.uid},
            "secrets": secrets,
        });
        none_if_missing(api_requests::merge::<Value>(&self.client, &path, &patch).await)?;
        Ok(())
    }
}
