//! Refusals of every port before anything looks at the request: a foreign `Host`, and what a
//! browser sends for a page of another site.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State as Shared};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};

use crate::access::credentials::Credentials;
use crate::access::denial::{Denial, Whose};
use crate::access::gate::{Admitted, Gate};
use crate::access::grants::May;
use crate::admin::commands::problem::Problem;
use crate::config::Listen;
use crate::http::host;
use crate::http::server_tls::peer::PeerCertificate;
use crate::http::service::ReachedBy;
use crate::http::site::is_cross_site;

/// Who may use a port.
#[derive(Clone, Debug, Default)]
pub struct Admits {
    /// Decides about operators who come from elsewhere; without it, everybody on this machine is one.
    pub operators: Option<Operators>,
    /// Hosts accepted besides loopback and the address connected to.
    pub allowed_hosts: Vec<String>,
    /// Accept requests that a browser makes for a page of another site (`listen.allow_cross_site`).
    pub allow_cross_site: bool,
}

impl Admits {
    pub fn of(listen: &Listen) -> Self {
        Self {
            operators: None,
            allowed_hosts: listen.allowed_hosts.clone(),
            allow_cross_site: listen.allow_cross_site,
        }
    }

    /// These hosts, and no page of another site.
    pub fn hosts(allowed_hosts: &[String]) -> Arc<Self> {
        Arc::new(Self { allowed_hosts: allowed_hosts.to_vec(), ..Self::default() })
    }

    /// The answer to a request that goes no further; `None` lets it pass.
    pub(super) fn refusal(&self, reached: ReachedBy, request: &Request) -> Option<Response> {
        let host = match host::named(request.headers(), request.uri().authority(), request.version()) {
            Ok(host) => host,
            Err(bad) => return Some((StatusCode::BAD_REQUEST, format!("{bad}\n")).into_response()),
        };
        // No browser connects to a Unix socket, so there is no name to point at it.
        let ReachedBy::Tcp(local) = reached else { return None };
        if host.is_some_and(|host| !host::is_ours(host, local, &self.allowed_hosts)) {
            return Some((StatusCode::MISDIRECTED_REQUEST, "this Host is not served here\n").into_response());
        }
        let is_refused = !self.allow_cross_site && is_cross_site(request.headers());
        is_refused.then(|| Problem::cross_site().into_response())
    }
}

/// Operators of an admin port that other machines reach.
#[derive(Clone, Debug)]
pub struct Operators {
    /// Decides by tokens that are for operators; without it, a proxy decides who comes in.
    pub gate: Option<Arc<Gate>>,
    /// A proxy hands requests on: one that comes over loopback may be anybody's.
    pub behind_proxy: bool,
}

/// Beginning of the paths of a service's commands.
pub(super) const COMMANDS: &str = "/commands/";

/// Marks a request of somebody who learns the state and no reasons.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unexplained;

impl Operators {
    /// True if somebody from elsewhere may have sent it.
    fn asks(&self, reached: ReachedBy) -> bool {
        match reached {
            ReachedBy::Tcp(local) => self.behind_proxy || !local.is_some_and(|local| local.is_loopback()),
            ReachedBy::Unix(_) => false,
        }
    }

    /// Lets a request through that a grant covers, or that needs none.
    async fn admit(&self, request: &mut Request) -> Result<(), Denial> {
        let need = match request.uri().path() {
            // Kubelets and load balancers have no token.
            "/livez" | "/readyz" => {
                request.extensions_mut().insert(Unexplained);
                return Ok(());
            }
            // They have a gate of their own, which decides by the command.
            path if path.starts_with(COMMANDS) => return Ok(()),
            "/metrics" => May::Metrics,
            _ => May::Operate,
        };
        let Some(gate) = &self.gate else { return Ok(()) };
        let peer = request.extensions().get::<Arc<PeerCertificate>>().cloned();
        let headers = std::mem::take(request.headers_mut());
        let credentials = Credentials::of(&headers, peer.as_deref());
        let admitted = gate.admit_operator(credentials, need).await;
        *request.headers_mut() = headers;
        admitted.map(|operator| note_command(request, &operator))
    }
}

/// Logs what an operator from elsewhere is about to do, and who that is.
fn note_command(request: &Request, operator: &Admitted) {
    if !request.method().is_safe() {
        let (principal, consumer) = operator.named();
        let (method, path) = (request.method(), request.uri().path());
        tracing::info!(principal, consumer, %method, path, "an operator's command");
    }
}

pub(super) fn denied(denial: Denial) -> Response {
    let mut response = Problem::from(denial).into_response();
    let headers = response.headers_mut();
    if let Some(challenge) = denial.challenge() {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    if denial.whose() == Whose::Service {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if let Some(mark) = denial.mark() {
        response.extensions_mut().insert(mark);
    }
    response
}

/// The router behind the guard of a port of the services.
pub(crate) fn guarded(router: Router, reached: ReachedBy, admits: Arc<Admits>) -> Router {
    type Port = (ReachedBy, Arc<Admits>);
    async fn guard(Shared((reached, admits)): Shared<Port>, mut request: Request, next: Next) -> Response {
        if let Some(refusal) = admits.refusal(reached, &request) {
            return refusal;
        }
        if let Some(operators) = admits.operators.as_ref().filter(|operators| operators.asks(reached))
            && let Err(denial) = operators.admit(&mut request).await
        {
            return denied(denial);
        }
        next.run(request).await
    }
    router.layer(middleware::from_fn_with_state((reached, admits), guard))
}

/// Keeps an answer out of caches and content sniffing.
pub(super) fn unstored(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
