//! Varnish. It keeps replies in its own memory (`malloc`), never in a file. It compiles its
//! programs when it starts, so it needs a C compiler, which its package brings along.

use super::peer::{Front, TTL_S, after, find, mebibytes, shown, write};
use crate::bench::subject::{Proof, Subject, SubjectError, Wish};

/// The name in the report.
pub(super) const NAME: &str = "varnish";

/// Starts one and waits until it answers.
pub(super) fn start(wish: &Wish) -> Result<Subject, SubjectError> {
    let found = find("varnishd", "-V", |text| after(text, "(varnish-"))?;
    let front = Front::new(NAME, wish)?;
    let file = write(wish, "varnish.vcl", &program(&front))?;
    let running = found.run(wish, &front, arguments(&front, wish, &shown(&file)))?;
    let settings = "malloc storage, 1 thread pool, its shared-memory log as it ships".to_owned();
    let proof = Proof::Header { name: "x-cache".to_owned(), contains: "HIT".to_owned() };
    Ok(found.subject(NAME, settings, proof, front, running))
}

/// `-j none`, because the jail would switch away from the user who owns the wish's folder.
fn arguments(front: &Front, wish: &Wish, program: &str) -> Vec<String> {
    let storage = format!("malloc,{}m", mebibytes(wish.cache_bytes));
    let (listen, state) = (front.listen(""), shown(&wish.folder.join("varnish")));
    let fixed = ["-F", "-j", "none", "-a", &listen, "-f", program, "-n", &state, "-s", &storage];
    let parameters = ["thread_pools=1", "thread_pool_min=100", "timeout_idle=3600", "listen_depth=4096"];
    let http2 = front.h2c.then_some("feature=+http2");
    let parameters = parameters.into_iter().chain(http2).flat_map(|parameter| ["-p", parameter]);
    fixed.into_iter().chain(parameters).map(str::to_owned).collect()
}

/// Keeps replies for an hour whatever they say, as Nearside's routes do; the built-in rules for
/// bodies and methods stay.
fn program(front: &Front) -> String {
    let (host, port) = (front.upstream.ip(), front.upstream.port());
    format!(
        "vcl 4.1;
backend service {{
    .host = \"{host}\";
    .port = \"{port}\";
}}
sub vcl_backend_response {{
    set beresp.ttl = {TTL_S}s;
    set beresp.grace = 0s;
}}
sub vcl_deliver {{
    if (obj.hits > 0) {{
        set resp.http.X-Cache = \"HIT\";
    }}
}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::peers::peer::tests::{front, wish};

    #[test]
    fn varnish_arguments_state_addresses_and_memory() {
        let line = arguments(&front(false), &wish(false), "p.vcl").join(" ");
        for words in ["-F ", "-a 127.0.0.1:7001 ", "-f p.vcl ", "-s malloc,64m", "-p thread_pools=1"] {
            assert!(line.contains(words), "{words} in: {line}");
        }
        let h2c = Front { h2c: true, ..front(false) };
        assert!(arguments(&h2c, &wish(false), "p.vcl").join(" ").ends_with("-p feature=+http2"));
        let text = program(&front(false));
        for line in [".host = \"127.0.0.1\";", ".port = \"7002\";", "set beresp.ttl = 3600s;", "obj.hits > 0"] {
            assert!(text.contains(line), "{line} in:\n{text}");
        }
        assert!(arguments(&front(true), &wish(true), "p.vcl").contains(&"/folder/listen.sock".to_owned()));
    }
}
