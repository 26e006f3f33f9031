//! The catalogue over HTTP. `openapi.json` describes it, and a test compares the two.
//!
//! [`access`] says who may do what; where callers are not checked, all of them are one writer.

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State as Shared};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use axum::{Json, Router};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Catalogue;
use super::author::RequestId;
use super::error::CatalogueError;
use super::limits::{BATCH_BYTES, HELD_BYTES, PAGE_HELD_BYTES, PAGES_HELD_BYTES, RECORD_BYTES};
use super::preconditions::Preconditions;
use super::problem_kind::ProblemKind;
use super::record::{RecordPage, RecordVersion, RecordWrite, RecordWritten};
use crate::access::gate::Gate;
use crate::config::template::unescaped;
use crate::http::bodies::{ByteBudget, Reserved};
use crate::http::server_tls::peer::PeerCertificate;

mod access;
mod fields;
mod refused;
mod request;

use access::Caller;
use fields::{state_taken, state_version};
use refused::RequestRefused;
use request::PageQuery;

/// The document that describes this API.
pub const OPENAPI: &str = include_str!("api/openapi.json");

type RecordPath = Result<Path<(String, String)>, PathRejection>;
type PageOf = Result<Query<PageQuery>, QueryRejection>;
type Answered = Result<Response, RequestRefused>;

#[derive(Clone)]
struct Api {
    catalogue: Arc<Catalogue>,
    /// Decides who may do what; without one, everybody may.
    gate: Option<Arc<Gate>>,
    /// Budget of requests that are held.
    held: Arc<ByteBudget>,
    /// Budget of pages that are being read, or not yet sent.
    pages: Arc<ByteBudget>,
}

/// Method, path, and who answers; `get` answers HEAD too.
fn routes() -> [(&'static str, &'static str, MethodRouter<Api>); 11] {
    const RECORD: &str = "/v1/records/{type}/{key}";
    [
        ("get", RECORD, get(read_record)),
        ("put", RECORD, put(put_record)),
        ("delete", RECORD, delete(delete_record)),
        ("get", "/v1/records/{type}/{key}/history", get(read_history)),
        ("get", "/v1/records/{type}", get(list_records)),
        ("post", "/v1/batch", post(write_batch)),
        ("get", "/v1/grants", get(read_grants)),
        ("put", "/v1/grants", put(put_grants)),
        ("get", "/v1/grants/history", get(read_grants_history)),
        ("get", "/v1/types", get(list_types)),
        ("get", "/openapi.json", get(openapi)),
    ]
}

/// Router for the catalogue's requests. Its server keeps out foreign hosts and pages of other
/// sites.
pub fn router(catalogue: Arc<Catalogue>, gate: Option<Arc<Gate>>) -> Router {
    let pages = ByteBudget::with_room_for_small(PAGES_HELD_BYTES, 0, 0);
    router_of(Api { catalogue, gate, held: ByteBudget::new(HELD_BYTES), pages })
}

fn router_of(api: Api) -> Router {
    let router = routes().into_iter().fold(Router::new(), |router, (_, path, methods)| router.route(path, methods));
    let router = router
        .fallback(async || RequestRefused::UnknownPath)
        .method_not_allowed_fallback(async || RequestRefused::Method)
        .with_state(api.clone());
    // Around all of it: the router adds `Allow` to whatever a layer of its routes answers.
    Router::new().fallback_service(router).layer(middleware::from_fn_with_state(api, around))
}

/// Finds out who asks, refuses paths that nobody can read, and counts what was refused.
async fn around(Shared(api): Shared<Api>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Arc<PeerCertificate>>().cloned();
    let mut response = match Caller::of(api.gate.as_ref(), request.headers(), peer.as_deref()).await {
        Err(denied) => denied.into_response(),
        // The router would take a broken escape for what stands there, and make a key of it.
        Ok(_) if unescaped(request.uri().path()).is_none() => RequestRefused::Path.into_response(),
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
    };
    if let Some(kind) = response.extensions().get::<ProblemKind>() {
        api.catalogue.counts().refused(*kind);
    }
    let headers = response.headers_mut();
    // A store on the way would make reads less than strongly consistent.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn record_at(caller: &Caller, path: RecordPath) -> Result<(String, String), RequestRefused> {
    let Path((record_type, key)) = path.map_err(|_| RequestRefused::Path)?;
    caller.needs_type(&record_type)?;
    Ok((record_type, key))
}

async fn read_record(Shared(api): Shared<Api>, caller: Caller, at: RecordPath, headers: HeaderMap) -> Answered {
    let (record_type, key) = record_at(&caller, at)?;
    let only_if = request::preconditions(&headers)?;
    let (version, body) = api.catalogue.get(&record_type, &key).await?;
    current(&only_if, version, body)
}

/// The answer to a read, by its preconditions.
fn current(only_if: &Preconditions, version: u64, body: Bytes) -> Answered {
    if !only_if.admits(Some(version), true) {
        return Err(CatalogueError::PreconditionFailed { version: Some(version) }.into());
    }
    let mut response = if only_if.is_unchanged(Some(version), true) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        json_bytes(body)
    };
    state_version(response.headers_mut(), version);
    Ok(response)
}

fn json_bytes(body: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

async fn put_record(Shared(api): Shared<Api>, caller: Caller, at: RecordPath, request: Request) -> Answered {
    let (record_type, key) = record_at(&caller, at)?;
    let (parts, body) = request.into_parts();
    let sent = request::json_body(&parts.headers, body, RECORD_BYTES, &api.held).await?;
    // The store may keep its handle for ever; what was read gives back its part of the budget.
    let write = RecordWrite::put(record_type, key, Bytes::copy_from_slice(&sent));
    write_one(&api, &caller, write, &parts.headers).await
}

async fn delete_record(Shared(api): Shared<Api>, caller: Caller, at: RecordPath, headers: HeaderMap) -> Answered {
    let (record_type, key) = record_at(&caller, at)?;
    write_one(&api, &caller, RecordWrite::delete(record_type, key), &headers).await
}

async fn write_one(api: &Api, caller: &Caller, write: RecordWrite, headers: &HeaderMap) -> Answered {
    let write = write.only_if(request::preconditions(headers)?);
    let author = caller.author(headers)?;
    let once = request::idempotency_key(headers, &author.by)?;
    let (applied, replayed) = api.catalogue.write(write, once.as_ref(), &author).await?;
    Ok(written(applied, replayed, &author.request))
}

fn written(applied: RecordWritten, replayed: bool, request: &RequestId) -> Response {
    let created = applied.created && !applied.deleted;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = (status, Json(applied)).into_response();
    state_version(response.headers_mut(), applied.version);
    state_taken(response.headers_mut(), replayed, request);
    response
}

async fn read_grants(Shared(api): Shared<Api>, caller: Caller, headers: HeaderMap) -> Answered {
    caller.needs_admin()?;
    let only_if = request::preconditions(&headers)?;
    let (version, body) = api.catalogue.grants().await?;
    current(&only_if, version, body)
}

async fn put_grants(Shared(api): Shared<Api>, caller: Caller, request: Request) -> Answered {
    caller.needs_admin()?;
    let (parts, body) = request.into_parts();
    let sent = request::json_body(&parts.headers, body, RECORD_BYTES, &api.held).await?;
    let only_if = request::preconditions(&parts.headers)?;
    let author = caller.author_of_grants(&parts.headers)?;
    let once = request::idempotency_key(&parts.headers, &author.by)?;
    // As with records.
    let document = Bytes::copy_from_slice(&sent);
    let (applied, replayed) = api.catalogue.write_grants(document, only_if, once.as_ref(), &author).await?;
    api.gate.iter().for_each(|gate| gate.note_announced());
    if !replayed {
        caller.note_written(applied.version);
    }
    Ok(written(applied, replayed, &author.request))
}

async fn read_grants_history(Shared(api): Shared<Api>, caller: Caller, page: PageOf) -> Answered {
    caller.needs_admin()?;
    let Query(page) = page.map_err(|_| RequestRefused::Query)?;
    let (limit, after) = (page.limit()?, page.after.as_deref());
    let held = api.pages.reserve(PAGE_HELD_BYTES).ok_or(RequestRefused::Busy)?;
    let RecordPage { records, next } = api.catalogue.grants_history(limit, after).await?;
    Ok(json_page(&History { versions: entries(&records), next }, held))
}

async fn write_batch(Shared(api): Shared<Api>, caller: Caller, request: Request) -> Answered {
    caller.needs_any_type()?;
    let (parts, body) = request.into_parts();
    if [header::IF_MATCH, header::IF_NONE_MATCH].iter().any(|name| parts.headers.contains_key(name)) {
        return Err(RequestRefused::BatchCondition);
    }
    let author = caller.author(&parts.headers)?;
    let once = request::idempotency_key(&parts.headers, &author.by)?;
    let sent = request::json_body(&parts.headers, body, BATCH_BYTES, &api.held).await?;
    let writes = request::batch(&sent)?;
    // Before anything is looked up, idempotency keys too.
    writes.iter().try_for_each(|write| caller.needs_type(&write.record_type))?;
    let answer = api.catalogue.batch(&writes, once.as_ref(), &author).await?;
    let mut response = Json(BatchAnswer { applied: answer.applied }).into_response();
    state_taken(response.headers_mut(), answer.replayed, &author.request);
    Ok(response)
}

#[derive(serde::Serialize)]
struct BatchAnswer {
    applied: Vec<RecordWritten>,
}

async fn list_records(
    Shared(api): Shared<Api>,
    caller: Caller,
    at: Result<Path<String>, PathRejection>,
    page: PageOf,
) -> Answered {
    let Path(record_type) = at.map_err(|_| RequestRefused::Path)?;
    caller.needs_type(&record_type)?;
    let Query(page) = page.map_err(|_| RequestRefused::Query)?;
    let (limit, after) = (page.limit()?, page.after.as_deref());
    let held = api.pages.reserve(PAGE_HELD_BYTES).ok_or(RequestRefused::Busy)?;
    let RecordPage { records, next } = api.catalogue.list(&record_type, limit, after).await?;
    Ok(json_page(&Listing { snapshot: false, records: entries(&records), next }, held))
}

async fn read_history(Shared(api): Shared<Api>, caller: Caller, at: RecordPath, page: PageOf) -> Answered {
    let (record_type, key) = record_at(&caller, at)?;
    let Query(page) = page.map_err(|_| RequestRefused::Query)?;
    let (limit, after) = (page.limit()?, page.after.as_deref());
    let held = api.pages.reserve(PAGE_HELD_BYTES).ok_or(RequestRefused::Busy)?;
    let RecordPage { records, next } = api.catalogue.history(&record_type, &key, limit, after).await?;
    Ok(json_page(&History { versions: entries(&records), next }, held))
}

/// A page on its way: it counts until its caller has read it.
struct SentPage {
    json: Vec<u8>,
    _held: Reserved,
}

impl AsRef<[u8]> for SentPage {
    fn as_ref(&self) -> &[u8] {
        &self.json
    }
}

fn json_page(page: &impl serde::Serialize, mut held: Reserved) -> Response {
    let mut json = serde_json::to_vec(page).expect("text, numbers and what was JSON before can always be written");
    json.shrink_to_fit();
    held.shrink_to(json.len() as u64);
    json_bytes(Bytes::from_owner(SentPage { json, _held: held }))
}

#[derive(serde::Serialize)]
struct Listing<'a> {
    /// Always false: what is written between two pages may be on them or not.
    snapshot: bool,
    records: Vec<PageEntry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(serde::Serialize)]
struct History<'a> {
    versions: Vec<PageEntry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A record on a page.
#[derive(serde::Serialize)]
struct PageEntry<'a> {
    key: &'a str,
    version: u64,
    deleted: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unreadable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a RawValue>,
    #[serde(flatten)]
    change: Change<'a>,
}

/// Writer and reason of a change, in a history. The principal is not for all who write the type.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Change<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
}

fn entries(records: &[RecordVersion]) -> Vec<PageEntry<'_>> {
    records.iter().map(PageEntry::of).collect()
}

impl<'a> PageEntry<'a> {
    fn of(record: &'a RecordVersion) -> Self {
        let body = record
            .body
            .as_deref()
            .map(|body| serde_json::from_slice(body).expect("the catalogue passes over what is no JSON"));
        let note = &record.note;
        let (by, request_id, reason) = (note.by.as_deref(), note.request.as_deref(), note.reason.as_deref());
        let change = Change { by, request_id, reason, at: note.at };
        let unreadable = record.is_unreadable;
        let deleted = record.body.is_none() && !unreadable;
        Self { key: &record.key, version: record.version, deleted, unreadable, body, change }
    }
}

async fn list_types(Shared(api): Shared<Api>, caller: Caller) -> Json<Value> {
    let seen = api.catalogue.types().iter().filter(|(name, _)| caller.sees_type(name));
    let types: Vec<_> = seen.map(|(name, schema)| json!({"name": name, "schema": schema})).collect();
    Json(json!({"types": types}))
}

async fn openapi() -> Response {
    json_bytes(Bytes::from_static(OPENAPI.as_bytes()))
}

#[cfg(test)]
mod tests;
