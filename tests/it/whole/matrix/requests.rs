//! Ways in: one request for each.

use http::StatusCode;

/// A port of a service, or its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Port {
    Node,
    Catalogue,
    NodePages,
    CataloguePages,
}

/// Right without which the answer is a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Not even a credential.
    Nothing,
    /// A credential of anybody's: there is nothing to see.
    Credential,
    View(&'static str),
    Type(&'static str),
    AnyType,
    Admin,
}

/// The answer behind the gate: its status, and the word of its problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Then {
    pub(super) status: u16,
    pub(super) word: &'static str,
}

/// One request. `{who}` in its path and lines stands for its sender's consumer, `{n}` for a number of
/// its own.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) port: Port,
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) lines: &'static [(&'static str, &'static str)],
    pub(super) body: &'static str,
    pub(super) need: Need,
    pub(super) then: Then,
}

impl Request {
    const fn with(mut self, lines: &'static [(&'static str, &'static str)]) -> Self {
        self.lines = lines;
        self
    }

    const fn sending(mut self, body: &'static str) -> Self {
        self.body = body;
        self
    }

    /// True if a sidecar answers it by its route, and does not pass it on as it is.
    pub(super) fn is_routed_read(&self) -> bool {
        let is_read = matches!(self.method, "GET" | "HEAD") && [VIEW, ABSENT].contains(&self.path);
        is_read || self.is_routed_batch()
    }

    pub(super) fn is_routed_batch(&self) -> bool {
        (self.method, self.path) == ("POST", BATCH)
    }

    pub(super) fn is_malformed_batch(&self) -> bool {
        self.is_routed_batch() && self.body == "{"
    }
}

const fn request(port: Port, (method, path): (&'static str, &'static str), need: Need, then: Then) -> Request {
    Request { port, method, path, lines: &[], body: "", need, then }
}

/// An answer with content, or that a write succeeded.
const fn ok() -> Then {
    Then { status: StatusCode::OK.as_u16(), word: "" }
}

const fn then(status: u16, word: &'static str) -> Then {
    Then { status, word }
}

pub(super) const VIEW: &str = "/v1/contexts/acme/limits";
const ABSENT: &str = "/v1/contexts/nobody/limits";
const TENANT: &str = "/v1/records/tenant/acme";
const NO_TENANT: &str = "/v1/records/tenant/nobody";
const BATCH: &str = "/v1/batch/limits";
const KEYS: &str = r#"{"keys":["acme"]}"#;

/// All ways in.
pub(super) fn all() -> Vec<Request> {
    [views(), batches(), nothing_at_nodes(), records(), writes(), types_and_grants(), pages()].concat()
}

const fn at_node(method: &'static str, path: &'static str, need: Need, answer: Then) -> Request {
    request(Port::Node, (method, path), need, answer)
}

const fn at_catalogue(method: &'static str, path: &'static str, need: Need, answer: Then) -> Request {
    request(Port::Catalogue, (method, path), need, answer)
}

/// A request for the view `limits`; those to read it have a route at the sidecars.
const fn limits(method: &'static str, path: &'static str, answer: Then) -> Request {
    at_node(method, path, Need::View("limits"), answer)
}

const fn get(answer: Then) -> Request {
    limits("GET", VIEW, answer)
}

fn views() -> Vec<Request> {
    vec![
        get(ok()),
        limits("HEAD", VIEW, ok()),
        get(then(304, "")).with(&[("if-none-match", "{tag}")]),
        limits("HEAD", VIEW, then(304, "")).with(&[("if-none-match", "{tag}")]),
        get(ok()).with(&[("if-none-match", "\"1\"")]),
        get(then(412, "precondition-failed")).with(&[("if-match", "\"1\"")]),
        get(ok()).with(&[("if-match", "{tag}")]),
        get(ok()).with(&[("cache-control", "no-cache")]),
        get(ok()).with(&[("cache-control", "only-if-cached")]),
        get(ok()).with(&[("cache-control", "max-stale=1000")]),
        get(ok()).with(&[("range", "bytes=0-")]),
        get(ok()).with(&[("x-grants-version", "9999999999999")]),
        get(ok()).with(&[("x-record-floor", "1")]),
        get(ok()).with(&[("accept-encoding", "zstd, gzip")]),
        limits("GET", ABSENT, then(404, "not-found")),
        limits("HEAD", ABSENT, then(404, "")),
        limits("GET", ABSENT, then(404, "not-found")).with(&[("if-none-match", "*")]),
        limits("GET", "/v1/contexts/a%zz/limits", then(400, "bad-key")),
    ]
}

fn batches() -> Vec<Request> {
    vec![
        limits("POST", BATCH, ok()).sending(KEYS),
        limits("POST", BATCH, ok()).sending(r#"{"keys":["acme","nobody"]}"#),
        limits("POST", BATCH, then(400, "bad-batch")).sending("{"),
        at_node("POST", "/v1/batch/profile", Need::View("profile"), then(405, "read-only")).sending(KEYS),
        at_node("POST", "/v1/batch/no-such-view", Need::View("no-such-view"), ok()).sending(KEYS),
        at_node("POST", "/v1/batch/limit%73", Need::Credential, then(405, "read-only")).sending(KEYS),
    ]
}

/// A path at which a node has nothing.
const fn nothing(path: &'static str) -> Request {
    at_node("GET", path, Need::Credential, then(404, "not-found"))
}

/// A method by which a node does nothing.
const fn undone(method: &'static str) -> Request {
    limits(method, VIEW, then(405, "read-only"))
}

fn nothing_at_nodes() -> Vec<Request> {
    vec![
        undone("PUT").sending("{}"),
        undone("DELETE"),
        undone("POST").sending("{}"),
        undone("PATCH").sending("{}"),
        undone("OPTIONS"),
        at_node("GET", "/v1/contexts/acme/no-such-view", Need::View("no-such-view"), ok()),
        at_node("GET", "/v1/contexts/acme/profile", Need::View("profile"), then(421, "view-not-taken")),
        at_node("GET", "/v1/contexts/acme/prices", Need::View("prices"), then(421, "view-not-taken")),
        nothing("/v1/contexts/acme/limit%73"),
        nothing("/v1/contexts/acme/limits/"),
        nothing("/v1/contexts/acme/_grants"),
        nothing("/v1/batch/limits"),
        nothing("/v1/announcements"),
        nothing("/readyz"),
        nothing("/"),
    ]
}

const fn tenant(method: &'static str, path: &'static str, answer: Then) -> Request {
    at_catalogue(method, path, Need::Type("tenant"), answer)
}

/// A request for a type that nobody has a grant for.
const fn unknown(method: &'static str, path: &'static str, name: &'static str) -> Request {
    at_catalogue(method, path, Need::Type(name), ok())
}

/// Reads of the catalogue.
fn records() -> Vec<Request> {
    vec![
        tenant("GET", TENANT, ok()),
        tenant("HEAD", TENANT, ok()),
        tenant("GET", "/v1/records/t%65nant/acme", ok()),
        tenant("GET", TENANT, then(304, "")).with(&[("if-none-match", "{record}")]),
        tenant("GET", TENANT, then(412, "precondition-failed")).with(&[("if-match", "\"1\"")]),
        tenant("GET", NO_TENANT, then(404, "not-found")),
        tenant("HEAD", NO_TENANT, then(404, "")),
        unknown("GET", "/v1/records/no-such-type/acme", "no-such-type"),
        unknown("GET", "/v1/records/_grants/grants", "_grants"),
        at_catalogue("GET", "/v1/records/tenant/a%zz", Need::Credential, then(400, "bad-key")),
        tenant("GET", "/v1/records/tenant", ok()),
        tenant("GET", "/v1/records/tenant?limit=1", ok()),
        tenant("GET", "/v1/records/tenant?limit=x", then(400, "bad-query")),
        unknown("GET", "/v1/records/no-such-type", "no-such-type"),
        unknown("GET", "/v1/records/_grants", "_grants"),
        tenant("GET", "/v1/records/tenant/acme/history", ok()),
        tenant("GET", "/v1/records/tenant/nobody/history", then(404, "not-found")),
        unknown("GET", "/v1/records/_grants/grants/history", "_grants"),
    ]
}

const fn batch(need: Need, answer: Then) -> Request {
    at_catalogue("POST", "/v1/batch", need, answer)
}

fn writes() -> Vec<Request> {
    const WRITTEN: &str = "/v1/records/tenant/written";
    vec![
        tenant("PUT", WRITTEN, ok()).sending(r#"{"users": {n}}"#),
        tenant("PUT", WRITTEN, then(412, "precondition-failed"))
            .with(&[("if-none-match", "*")])
            .sending(r#"{"users": {n}}"#),
        tenant("PUT", WRITTEN, then(400, "bad-json")).sending("["),
        tenant("DELETE", NO_TENANT, then(404, "not-found")),
        tenant("DELETE", TENANT, then(412, "precondition-failed")).with(&[("if-match", "\"1\"")]),
        unknown("PUT", "/v1/records/no-such-type/a", "no-such-type").sending("{}"),
        unknown("PUT", "/v1/records/_grants/grants", "_grants").sending("{}"),
        at_catalogue("POST", TENANT, Need::Credential, then(405, "method")).sending("{}"),
        // One key of two consumers is two keys, and one that was used says nothing to anybody else.
        at_catalogue("PUT", "/v1/records/shard/{who}", Need::Type("shard"), ok())
            .with(&[("idempotency-key", "same")])
            .sending(r#"{"of": "{who}"}"#),
        batch(Need::Type("shard"), ok())
            .sending(r#"{"writes":[{"method":"PUT","type":"shard","key":"batch","body":{}}]}"#),
        batch(Need::Type("tenant"), ok()).sending(
            r#"{"writes":[{"method":"PUT","type":"shard","key":"b","body":{}},
                {"method":"PUT","type":"tenant","key":"batch","body":{"users":{n}}}]}"#,
        ),
        batch(Need::Type("_grants"), ok())
            .sending(r#"{"writes":[{"method":"PUT","type":"_grants","key":"grants","body":{}}]}"#),
        batch(Need::AnyType, then(400, "bad-batch")).sending("{"),
    ]
}

const fn grants(method: &'static str, answer: Then) -> Request {
    at_catalogue(method, "/v1/grants", Need::Admin, answer)
}

fn types_and_grants() -> Vec<Request> {
    vec![
        at_catalogue("GET", "/v1/types", Need::Credential, ok()),
        at_catalogue("GET", "/openapi.json", Need::Credential, ok()),
        at_catalogue("GET", "/elsewhere", Need::Credential, then(404, "unknown-path")),
        at_catalogue("GET", "/metrics", Need::Credential, then(404, "unknown-path")),
        grants("GET", ok()),
        grants("HEAD", ok()),
        grants("PUT", then(422, "bad-grants")).sending("{}"),
        grants("PUT", then(412, "precondition-failed"))
            .with(&[("if-match", "\"1\"")])
            .sending(r#"{"format":1,"consumers":{}}"#),
        at_catalogue("GET", "/v1/grants/history", Need::Admin, ok()),
        at_catalogue("DELETE", "/v1/grants", Need::Credential, then(405, "method")),
    ]
}

/// Pages on loopback, which answer everybody on this machine.
fn pages() -> Vec<Request> {
    vec![
        page(Port::NodePages, "/livez"),
        page(Port::NodePages, "/readyz"),
        page(Port::NodePages, "/metrics"),
        page(Port::CataloguePages, "/livez"),
        page(Port::CataloguePages, "/status"),
    ]
}

const fn page(port: Port, path: &'static str) -> Request {
    request(port, ("GET", path), Need::Nothing, ok())
}
