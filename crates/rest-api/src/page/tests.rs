//! Access rules of the page's listener.

use super::*;

fn access(config: PageConfig) -> Arc<PageAccess> {
    let access = PageAccess::new(&config, "router", Some("a token of this test".into())).unwrap();
    access.set_address("127.0.0.1:6390".parse().unwrap());
    access
}

fn code(access: &PageAccess, method: &str, path: &str, headers: &[(&str, &str)]) -> u64 {
    let mut map = HeaderMap::new();
    let mut host = "127.0.0.1:6390";
    for (name, value) in headers {
        if *name == "host" {
            host = value;
        }
        map.append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
    }
    let method: Method = method.parse().unwrap();
    let checked = access.check(&method, &path.parse().unwrap(), &map, host);
    checked.map_or_else(|refused| refused.0.code, |()| 200)
}

#[test]
fn files_and_login_need_no_session_and_all_else_does() {
    let access = access(PageConfig::default());
    let user = PageUser::default();
    access.lock().start("id".into(), "csrf".into(), user, access.now());
    let cookie = ("cookie", "other=1; nw_session_6390=id");
    for path in files::paths() {
        assert_eq!(code(&access, "GET", path, &[]), 200, "{path}");
        assert_eq!(code(&access, "POST", path, &[]), 401, "{path}");
    }
    assert_eq!(code(&access, "POST", "/v1/session", &[]), 200);
    for path in ["/v1/session", "/v1/page", "/v1/faces", "/metrics", "/openapi.json"] {
        assert_eq!(code(&access, "GET", path, &[]), 401, "{path}");
        assert_eq!(code(&access, "GET", path, &[cookie]), 403, "{path}: the cookie alone");
        let wrong = ("x-nw-csrf", "csrF");
        assert_eq!(code(&access, "PUT", path, &[cookie, wrong]), 403, "{path}");
        let right = ("x-nw-csrf", "csrf");
        assert_eq!(code(&access, "PUT", path, &[cookie, right]), 200, "{path}");
        assert_eq!(code(&access, "PUT", path, &[right]), 401, "{path}");
    }
}

#[test]
fn requests_of_other_sites_are_refused_with_a_session() {
    let access = access(PageConfig::default());
    let user = PageUser::default();
    access.lock().start("id".into(), "csrf".into(), user, access.now());
    let session = [("cookie", "nw_session_6390=id"), ("x-nw-csrf", "csrf")];
    for (name, value, expected) in [
        ("origin", "http://127.0.0.1:6390", 200),
        ("origin", "http://127.0.0.1:6391", 403),
        ("origin", "https://127.0.0.1:6390", 403),
        ("origin", "http://evil.example", 403),
        ("origin", "null", 403),
        ("sec-fetch-site", "same-origin", 200),
        ("sec-fetch-site", "none", 200),
        ("sec-fetch-site", "same-site", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("host", "evil.example", 403),
        ("host", "localhost:6390", 200),
    ] {
        let headers = [session[0], session[1], (name, value)];
        assert_eq!(code(&access, "POST", "/v1/faces", &headers), expected, "{name}: {value}");
        let login = code(&access, "POST", "/v1/session", &[(name, value)]);
        assert_eq!(login, expected, "{name}: {value}");
    }
}

#[test]
fn public_url_is_accepted_as_host_and_origin_and_makes_cookies_secure() {
    let public_url = Some("https://router.example".to_owned());
    let access = access(PageConfig { public_url, ..PageConfig::default() });
    let host = ("host", "router.example");
    for (origin, expected) in [
        ("https://router.example", 200),
        ("http://router.example", 403),
        ("https://evil.example", 403),
    ] {
        let headers = [host, ("origin", origin)];
        assert_eq!(code(&access, "POST", "/v1/session", &headers), expected, "{origin}");
    }
    assert!(access.set_cookie("id", 1).to_str().unwrap().ends_with("; Secure"));
    assert_eq!(access.url(), "https://router.example/");
}

#[test]
fn login_accepts_ticket_once_and_limits_wrong_tokens() {
    let access = access(PageConfig::default());
    let url = access.create_ticket(PageUser::default()).ok().unwrap().url;
    let (page, ticket) = url.split_once("#ticket=").unwrap();
    assert_eq!(page, "http://127.0.0.1:6390/");
    let by_ticket = SessionWanted { ticket: Some(ticket.to_owned()), token: None };
    assert!(access.log_in(&by_ticket).is_ok());
    assert_eq!(access.log_in(&by_ticket).unwrap_err().0.code, 401);
    let by_token = |token: &str| SessionWanted { ticket: None, token: Some(token.to_owned()) };
    assert!(access.log_in(&by_token("a token of this test")).is_ok());
    for _ in 0..10 {
        assert_eq!(access.log_in(&by_token("a guess")).unwrap_err().0.code, 401);
    }
    assert_eq!(access.log_in(&by_token("a token of this test")).unwrap_err().0.code, 429);
    let without_token = PageAccess::new(&PageConfig::default(), "router", None).unwrap();
    assert_eq!(without_token.log_in(&by_token("")).unwrap_err().0.code, 401);
}

#[test]
fn event_stream_ends_with_its_session() {
    let access = access(PageConfig::default());
    for id in ["id", "other"] {
        access.lock().start(id.into(), "csrf".into(), PageUser::default(), access.now());
    }
    let headers = |id: &str| {
        let cookie = format!("nw_session_6390={id}").parse().unwrap();
        HeaderMap::from_iter([(header::COOKIE, cookie)])
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let stream = |id: &str| {
            let (sender, body) = crate::stream_body();
            (sender, access.limit_stream(&headers(id), Response::new(body)))
        };
        let (ended, other) = (stream("id"), stream("other"));
        access.lock().end("id");
        let read = |response: Response| axum::body::to_bytes(response.into_body(), 1024);
        assert_eq!(read(ended.1).await.unwrap(), "");
        assert!(ended.0.is_closed());
        other.0.send("event".into()).await.unwrap();
        drop(other.0);
        assert_eq!(read(other.1).await.unwrap(), "event", "the other session goes on");
    });
}

#[test]
fn certificate_that_is_no_certificate_is_refused_with_its_option() {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["page.pem", "key.pem"].map(|name| folder.path().join(name));
    let config = |certificate: &std::path::Path| PageConfig {
        certificate: Some(certificate.to_owned()),
        key: Some(key.clone()),
        ..PageConfig::default()
    };
    let refused = |config| PageAccess::new(&config, "router", None).err().unwrap().to_string();
    assert!(refused(config(&certificate)).contains("page.certificate"));
    std::fs::write(&certificate, "no certificate").unwrap();
    assert!(refused(config(&certificate)).contains("it has no certificate"));
}
