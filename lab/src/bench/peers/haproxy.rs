//! HAProxy with its `cache` and one thread. Objects of 100 KiB fit. It keeps at most 4,095 MiB, and
//! a reply for as long as its `max-age` says, but at most an hour.
//!
//! At its start it touches all the memory that it is given, so its resident memory says nothing
//! about what it keeps, and with gigabytes the start takes seconds. Larger buffers (`tune.bufsize`)
//! made every hit more expensive.

use super::peer::{Front, TTL_S, after, find, mebibytes, open_files, shown, write};
use crate::bench::subject::{Proof, Subject, SubjectError, Wish};

/// The name in the report.
pub(crate) const NAME: &str = "haproxy";

/// HAProxy refuses more.
const MOST_MEBIBYTES: u64 = 4095;

/// Starts one and waits until it answers.
pub(crate) fn start(wish: &Wish) -> Result<Subject, SubjectError> {
    let found = find("haproxy", "-v", |text| after(text, "version "))?;
    let front = Front::new(NAME, wish)?;
    let file = write(wish, "haproxy.cfg", &configuration(&front, wish))?;
    // `-db` keeps it in the foreground.
    let running = found.run(wish, &front, ["-db", "-f", &shown(&file)])?;
    let settings = "cache, nbthread 1, no log".to_owned();
    let proof = Proof::Header { name: "x-cache".to_owned(), contains: "HIT".to_owned() };
    Ok(found.subject(NAME, settings, proof, front, running))
}

fn configuration(front: &Front, wish: &Wish) -> String {
    let (listen, upstream) = (front.listen("unix@"), front.upstream);
    let proto = if front.h2c { " proto h2" } else { "" };
    // An object may take at most half of the cache, and a mebibyte is enough.
    let mebibytes = mebibytes(wish.cache_bytes).clamp(4, MOST_MEBIBYTES);
    // A connection takes two files on a miss.
    let connections = open_files() / 4;
    format!(
        "global
    nbthread 1
    maxconn {connections}
defaults
    mode http
    timeout connect 5s
    timeout client 1h
    timeout server 1m
    timeout http-keep-alive 1h
    option http-keep-alive
    http-reuse always
cache kept
    total-max-size {mebibytes}
    max-object-size 1048576
    max-age {TTL_S}
listen front
    bind {listen} backlog 4096{proto}
    http-request cache-use kept
    http-response cache-store kept
    http-after-response set-header X-Cache HIT if {{ res.cache_hit }}
    server service {upstream}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::peers::peer::tests::{front, wish};

    #[test]
    fn haproxy_configuration_states_addresses_and_size() {
        let text = configuration(&front(false), &wish(false));
        for line in [
            "nbthread 1\n",
            "bind 127.0.0.1:7001 ",
            "server service 127.0.0.1:7002\n",
            "total-max-size 64\n",
            "max-object-size 1048576\n",
            "max-age 3600\n",
        ] {
            assert!(text.contains(line), "{line} in:\n{text}");
        }
        let h2c = Front { h2c: true, ..front(false) };
        assert!(configuration(&h2c, &wish(false)).contains("bind 127.0.0.1:7001 backlog 4096 proto h2\n"));
        assert!(configuration(&front(true), &wish(true)).contains("bind unix@/folder/listen.sock "));
    }

    #[test]
    fn haproxy_cache_stays_within_its_limit() {
        let wish = Wish { cache_bytes: 1 << 40, ..wish(false) };
        assert!(configuration(&front(false), &wish).contains("total-max-size 4095\n"));
    }
}
