//! The requests to Keystone and Neutron.

use http::StatusCode;
use serde_json::json;

use crate::keystone_server::{Exchange, Sent, Servers, mark_of, network, network_of, subnet};
use crate::world::{cluster, desired};
use network_operator::backend::neutron::{Neutron, NeutronOptions};
use network_operator::backend::{Backend, BackendError, Ids};
use runtime::Request;

#[tokio::test]
async fn a_password_is_exchanged_for_a_token_which_is_renewed() {
    let servers = Servers::start().await;
    let neutron = Neutron::new(&NeutronOptions {
        os_username: Some("alice".to_owned()),
        os_password: Some("wonder".to_owned().into()),
        os_project_name: Some("demo".to_owned()),
        os_project_domain_name: Some("land".to_owned()),
        os_region_name: Some("two".to_owned()),
        ..servers.options()
    })
    .unwrap();
    neutron.keys(&cluster()).await.unwrap();
    neutron.keys(&cluster()).await.unwrap();
    servers.exchange.lock().unwrap().valid_from = 2;
    neutron.keys(&cluster()).await.unwrap();
    let exchange = servers.exchange.lock().unwrap();
    let login = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {
            "name": "alice", "domain": {"name": "Default"}, "password": "wonder",
        }}},
        "scope": {"project": {"name": "demo", "domain": {"name": "land"}}},
    }});
    assert_eq!(exchange.logins, [login.clone(), login]);
    let tokens = exchange.requests.iter().map(|sent| sent.headers["x-auth-token"].as_str());
    let tokens: Vec<_> = tokens.collect();
    // Each call lists networks and subnets.
    assert_eq!(
        tokens,
        ["token-1", "token-1", "token-1", "token-1", "token-1", "token-2", "token-2"]
    );
    assert!(exchange.requests.iter().all(|sent| !sent.headers.contains_key("x-project-id")));
}

#[tokio::test]
async fn an_application_credential_is_exchanged_for_a_token() {
    let servers = Servers::start().await;
    let options = servers.application_credential();
    assert!(!format!("{options:?}").contains("secret\""), "secrets are not printed");
    Neutron::new(&options).unwrap().keys(&cluster()).await.unwrap();
    let login = json!({"auth": {"identity": {
        "methods": ["application_credential"],
        "application_credential": {"id": "id", "secret": "secret"},
    }}});
    assert_eq!(servers.exchange.lock().unwrap().logins, [login]);
    // A token that is refused again is not asked for without end.
    servers.exchange.lock().unwrap().valid_from = 99;
    let refused = Neutron::new(&options).unwrap().keys(&cluster()).await;
    assert!(matches!(refused, Err(BackendError::Unavailable(_))), "{refused:?}");
    assert_eq!(servers.exchange.lock().unwrap().tokens, 3);
}

#[tokio::test]
async fn domains_are_named_by_their_identifiers_too() {
    let servers = Servers::start().await;
    let neutron = Neutron::new(&NeutronOptions {
        os_username: Some("alice".to_owned()),
        os_password: Some("wonder".to_owned().into()),
        os_user_domain_id: Some("u".to_owned()),
        os_project_name: Some("demo".to_owned()),
        os_project_domain_id: Some("default".to_owned()),
        os_project_domain_name: Some("land".to_owned()),
        os_region_name: Some("two".to_owned()),
        ..servers.options()
    });
    neutron.unwrap().keys(&cluster()).await.unwrap();
    let auth = &servers.exchange.lock().unwrap().logins[0]["auth"];
    assert_eq!(auth["identity"]["password"]["user"]["domain"], json!({"id": "u"}));
    assert_eq!(auth["scope"]["project"]["domain"], json!({"id": "default"}));
}

#[tokio::test]
async fn the_url_of_neutron_may_end_in_the_version_of_its_api() {
    let servers = Servers::start().await;
    for version in ["", "/", "/v2.0", "/v2.0/"] {
        let neutron_url = format!("http://{}/networking{version}", servers.address);
        let neutron_url = Some(neutron_url.parse().unwrap());
        let options = NeutronOptions { neutron_url, ..servers.application_credential() };
        Neutron::new(&options).unwrap().keys(&cluster()).await.unwrap();
    }
    let exchange = servers.exchange.lock().unwrap();
    let is_right = |sent: &Sent| sent.uri.starts_with("/networking/v2.0/");
    assert!(exchange.requests.len() == 8 && exchange.requests.iter().all(is_right));
}

#[tokio::test]
async fn options_that_are_missing_are_named() {
    let servers = Servers::start().await;
    let error = |options: &NeutronOptions| Neutron::new(options).unwrap_err().to_string();
    assert_eq!(error(&NeutronOptions::default()), "NEUTRON_URL or OS_AUTH_URL is missing");
    assert_eq!(error(&servers.options()), "OS_USERNAME is missing");
    let neutron_url = Some("/relative".parse().unwrap());
    let relative = NeutronOptions { neutron_url, ..NeutronOptions::default() };
    let message = "/relative, in NEUTRON_URL or OS_AUTH_URL, is not an absolute http or https URL \
                   without a query";
    assert_eq!(error(&relative), message);
}

#[tokio::test]
async fn responses_that_are_too_large_or_not_those_that_were_asked_for_do_no_harm() {
    let servers = Servers::start().await;
    let options = servers.application_credential();
    let neutron = Neutron::new(&options).unwrap();
    let plan = async |body: Vec<u8>, desired| {
        servers.exchange.lock().unwrap().body = Some(body.into());
        neutron.plan(&mark_of("a"), desired, &Ids::new()).await
    };
    let too_large = plan(vec![b' '; 5 << 20], None).await.unwrap_err().to_string();
    assert!(too_large.contains("length limit exceeded"), "{too_large}");
    let no_json = plan(b"<html>".to_vec(), None).await.unwrap_err().to_string();
    assert!(no_json.contains("is not valid: expected value"), "{no_json}");
    let path = json!({"networks": [{"id": "../../x", "revision_number": 1}]}).to_string();
    assert!(plan(path.into_bytes(), None).await.is_err());
    // A server that ignores the filter.
    let network = json!({"id": "x", "project_id": "ours", "revision_number": 1, "description": "of somebody else"});
    let others = json!({"networks": [network], "subnets": []}).to_string();
    assert!(plan(others.clone().into_bytes(), None).await.unwrap().changes.is_empty());
    let wanted = desired("10.0.0.0/24", "10.0.0.1");
    let changes = plan(others.into_bytes(), Some(&wanted)).await.unwrap().changes;
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].to_string(), "created network");
    // A server that sends the same full page for ever.
    let page: Vec<_> = (0..500).map(|_| network_of("same")).collect();
    let page = json!({"networks": page}).to_string();
    servers.exchange.lock().unwrap().body = Some(page.into());
    let incomplete = neutron.keys(&cluster()).await.unwrap_err();
    assert_eq!(
        incomplete.to_string(),
        "unavailable: Neutron repeats a page of its list of networks"
    );
}

#[tokio::test]
async fn wrong_credentials_and_wrong_urls_are_refusals_that_name_the_service_and_the_url() {
    let servers = Servers::start().await;
    let options = servers.application_credential();
    let error = async |options: &NeutronOptions| {
        let error = Neutron::new(options).unwrap().keys(&cluster()).await.unwrap_err();
        assert!(matches!(error, BackendError::Refused(_)), "{error:?}");
        error.to_string().replace(&servers.address.to_string(), "ADDRESS")
    };
    let neutron_url = Some(format!("http://{}/wrong", servers.address).parse().unwrap());
    let expected = "refused: Neutron responded to GET http://ADDRESS/wrong/v2.0/networks with 404 \
                    Not Found: no such page";
    assert_eq!(error(&NeutronOptions { neutron_url, ..options.clone() }).await, expected);

    let os_auth_url = Some(format!("http://{}/wrong", servers.address).parse().unwrap());
    let expected = "refused: Keystone responded to POST http://ADDRESS/wrong/v3/auth/tokens with \
                    404 Not Found: no such page";
    assert_eq!(error(&NeutronOptions { os_auth_url, ..options.clone() }).await, expected);

    servers.exchange.lock().unwrap().refuses_logins = true;
    let expected = "refused: Keystone responded to POST http://ADDRESS/identity/v3/auth/tokens \
                    with 401 Unauthorized: The request you have made requires authentication.";
    assert_eq!(error(&options).await, expected);
}

#[tokio::test]
async fn a_network_with_ports_is_in_use_and_one_that_has_changed_is_a_conflict() {
    const IN_USE: &str = "Unable to complete operation on network a. There are one or more ports \
                          still in use on the network.";
    let servers = Servers::start().await;
    let neutron = Neutron::new(&servers.application_credential()).unwrap();
    servers.exchange.lock().unwrap().networks = vec![network("a", "a")];
    servers.exchange.lock().unwrap().subnets = vec![subnet("a")];
    let (moved, new) = (desired("10.0.0.0/24", "10.0.0.9"), desired("10.0.1.0/24", "10.0.1.1"));
    let (conflict, stale) = (StatusCode::CONFLICT, StatusCode::PRECONDITION_FAILED);
    for (name, desired, method, status, reason) in [
        ("a", None, "DELETE", conflict, "InUse"),
        ("a", Some(&moved), "PUT", conflict, "InUse"),
        ("a", None, "DELETE", stale, "Conflict"),
        ("a", Some(&moved), "PUT", stale, "Conflict"),
        // Over quota.
        ("b", Some(&new), "POST", conflict, "BackendUnavailable"),
    ] {
        servers.exchange.lock().unwrap().refusal = Some((status, IN_USE));
        let plan = neutron.plan(&mark_of(name), desired, &Ids::new()).await.unwrap();
        let error = neutron.make(&mark_of(name), &plan.changes[0]).await.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.reason(), reason, "{text}");
        assert!(text.contains(method) && text.ends_with(IN_USE), "{text}");
    }
}

#[tokio::test]
async fn a_list_is_read_page_by_page() {
    let servers = Servers::start().await;
    let neutron = Neutron::new(&servers.application_credential()).unwrap();
    let name = |number: usize| format!("n{number:04}");
    let networks = |count: usize| {
        (0..count).map(|number| network(&name(number), &name(number))).collect::<Vec<_>>()
    };
    let expected = |count: usize| {
        (0..count).map(|number| Request::new("default", &name(number))).collect::<Vec<_>>()
    };
    // 500 is the limit that is asked for; 7 is the one of a server that sends smaller pages.
    for (count, max_page, pages) in [(500, None, 2), (501, None, 2), (20, Some(7), 3)] {
        *servers.exchange.lock().unwrap() =
            Exchange { networks: networks(count), max_page, tokens: 1, ..Exchange::default() };
        assert_eq!(neutron.keys(&cluster()).await.unwrap(), expected(count));
        let exchange = servers.exchange.lock().unwrap();
        let lists = exchange.requests.iter().filter(|sent| sent.uri.contains("/networks"));
        assert_eq!(lists.count(), pages, "{count}");
    }
}

#[tokio::test]
async fn a_list_without_end_is_given_up() {
    let servers = Servers::start().await;
    let neutron = Neutron::new(&servers.application_credential()).unwrap();
    let padding = "x".repeat(8000);
    servers.exchange.lock().unwrap().endless_padding = Some(padding);
    let error = neutron.keys(&cluster()).await.unwrap_err().to_string();
    assert_eq!(error, "unavailable: Neutron sends more than 64 MiB in its list of networks");
    let pages = servers.exchange.lock().unwrap().requests.len();
    assert!((10..40).contains(&pages), "{pages}");

    servers.exchange.lock().unwrap().endless_padding = Some(String::new());
    let error = neutron.keys(&cluster()).await.unwrap_err().to_string();
    assert_eq!(error, "unavailable: Neutron lists more than 50000 networks");
}

#[tokio::test]
async fn a_network_that_was_listed_as_desired_costs_no_request() {
    let servers = Servers::start().await;
    let neutron = Neutron::new(&servers.application_credential()).unwrap();
    let wanted = desired("10.0.0.0/24", "10.0.0.1");
    let names = ["a", "b", "c"];
    servers.exchange.lock().unwrap().networks = names.map(|name| network(name, name)).to_vec();
    servers.exchange.lock().unwrap().subnets = names.map(subnet).to_vec();
    // The number of requests of a plan, and of its changes.
    let plan = async |name: &str| {
        servers.exchange.lock().unwrap().requests.clear();
        let plan = neutron.plan(&mark_of(name), Some(&wanted), &Ids::new()).await.unwrap();
        (servers.exchange.lock().unwrap().requests.len(), plan.changes)
    };
    neutron.keys(&cluster()).await.unwrap();
    assert_eq!(servers.exchange.lock().unwrap().requests.len(), 2);
    let (requests, changes) = plan("a").await;
    assert_eq!((requests, changes.len()), (0, 0));
    // Once: what was listed is then outdated.
    assert_eq!(plan("a").await.0, 3);

    // A difference is planned with what exists now.
    servers.exchange.lock().unwrap().subnets[1]["gateway_ip"] = json!("10.0.0.9");
    neutron.keys(&cluster()).await.unwrap();
    let (requests, changes) = plan("b").await;
    assert_eq!(requests, 3);
    assert_eq!(changes[0].to_string(), "set the gateway of subnet s-b to 10.0.0.1");

    // After a change of this operator, its outcome is read.
    neutron.keys(&cluster()).await.unwrap();
    neutron.make(&mark_of("c"), &changes[0]).await.unwrap();
    assert_eq!(plan("c").await.0, 3);

    // A deletion is never planned with a list.
    neutron.keys(&cluster()).await.unwrap();
    servers.exchange.lock().unwrap().requests.clear();
    assert_eq!(neutron.plan(&mark_of("a"), None, &Ids::new()).await.unwrap().changes.len(), 1);
    assert_eq!(servers.exchange.lock().unwrap().requests.len(), 3);
}
