//! Envoy with its cache filter and one worker. The filter's memory cache has no limit and calls
//! itself unfit for production, but it is what Envoy has.

use super::peer::{Front, find, shown, write};
use crate::bench::subject::{Address, Proof, Subject, SubjectError, Wish};

/// The name in the report.
pub(super) const NAME: &str = "envoy";

/// Starts one and waits until it answers.
pub(super) fn start(wish: &Wish) -> Result<Subject, SubjectError> {
    let found = find("envoy", "--version", version)?;
    let front = Front::new(NAME, wish)?;
    let file = write(wish, "envoy.yaml", &configuration(&front))?;
    // Hot restart shares memory between all Envoys of a machine, and refuses to start the second.
    let arguments = ["-c", &shown(&file), "--concurrency", "1", "--disable-hot-restart", "--log-level", "error"];
    let running = found.run(wish, &front, arguments)?;
    let settings = "cache filter with SimpleHttpCache, concurrency 1, no access log".to_owned();
    Ok(found.subject(NAME, settings, Proof::HeaderPresent("age".to_owned()), front, running))
}

/// Reads the version from `envoy  version: HASH/1.40.0/Clean/RELEASE/BoringSSL`.
fn version(text: &str) -> Option<&str> {
    text.split_once("version: ")?.1.split('/').nth(1)
}

fn configuration(front: &Front) -> String {
    let listen = match &front.listen {
        Address::Tcp(address) => {
            format!("{{socket_address: {{address: {}, port_value: {}}}}}", address.ip(), address.port())
        }
        Address::Unix(path) => format!("{{pipe: {{path: {}}}}}", path.display()),
    };
    let codec = if front.h2c { "HTTP2" } else { "HTTP1" };
    let (host, port) = (front.upstream.ip(), front.upstream.port());
    format!(
        "static_resources:
  listeners:
  - name: front
    address: {listen}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          codec_type: {codec}
          generate_request_id: false
          server_header_transformation: PASS_THROUGH
          route_config:
            virtual_hosts:
            - name: all
              domains: [\"*\"]
              routes: [{{match: {{prefix: \"/\"}}, route: {{cluster: service}}}}]
          http_filters:
          - name: envoy.filters.http.cache
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.cache.v3.CacheConfig
              typed_config:
                \"@type\": type.googleapis.com/envoy.extensions.http.cache.simple_http_cache.v3.SimpleHttpCacheConfig
          - name: envoy.filters.http.router
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
              suppress_envoy_headers: true
  clusters:
  - name: service
    type: STATIC
    connect_timeout: 5s
    circuit_breakers:
      thresholds: [{{max_connections: 16384, max_pending_requests: 16384, max_requests: 16384}}]
    load_assignment:
      cluster_name: service
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: {host}, port_value: {port}}}}}}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::peers::peer::tests::front;

    #[test]
    fn envoy_configuration_states_addresses_and_cache() {
        let text = configuration(&front(false));
        for line in [
            "address: {socket_address: {address: 127.0.0.1, port_value: 7001}}\n",
            "endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 7002}}}\n",
            "simple_http_cache.v3.SimpleHttpCacheConfig\n",
        ] {
            assert!(text.contains(line), "{line} in:\n{text}");
        }
        assert!(configuration(&Front { h2c: true, ..front(false) }).contains("codec_type: HTTP2\n"));
        assert!(configuration(&front(true)).contains("address: {pipe: {path: /folder/listen.sock}}\n"));
    }

    #[test]
    fn envoy_version_ignores_path_before_it() {
        let text = "\ntarget/peers/bin/envoy  version: 9e55/1.40.0/Clean/RELEASE/BoringSSL\n\n";
        assert_eq!(version(text), Some("1.40.0"));
    }
}
