//! nginx with `proxy_cache` and one worker. The cache's files are in the wish's folder, so they are
//! in memory if that folder is.
//!
//! It is there twice, because no single setting is its best. With reads and writes, a hit of 1 KiB
//! took 13.1 us and one of 100 KiB took 31; with `sendfile` 16.4 and 18.8. Adding `tcp_nopush`
//! (14.3 and 28) holds large replies back for about 40 ms. A scenario with small replies shows the
//! first, one with large replies the second, or both.

use super::peer::{Front, TTL_S, after, find, mebibytes, open_files, shown, write};
use crate::bench::subject::{Proof, Subject, SubjectError, Wish};

/// The name in the report of the setup for small replies.
pub(crate) const NAME: &str = "nginx";

/// The name in the report of the setup for large replies.
pub(crate) const SENDFILE_NAME: &str = "nginx-sendfile";

/// Starts one that reads its files and writes replies in one piece.
pub(crate) fn start(wish: &Wish) -> Result<Subject, SubjectError> {
    start_with(NAME, "sendfile off", "sendfile off;\n    output_buffers 2 128k;", wish)
}

/// Starts one that lets the kernel send its files.
pub(crate) fn start_sendfile(wish: &Wish) -> Result<Subject, SubjectError> {
    start_with(SENDFILE_NAME, "sendfile on", "sendfile on;", wish)
}

fn start_with(name: &str, words: &str, sending: &str, wish: &Wish) -> Result<Subject, SubjectError> {
    let found = find("nginx", "-v", |text| after(text, "nginx/"))?;
    let front = Front::new(name, wish)?;
    let file = write(wish, "nginx.conf", &configuration(&front, wish, sending))?;
    // Without `-e`, it would open the distribution's error log before it has read its
    // configuration.
    let arguments = ["-c", &shown(&file), "-p", &shown(&wish.folder), "-e", "stderr"].map(str::to_owned);
    let running = found.run(wish, &front, arguments)?;
    let settings = format!("proxy_cache, 1 worker, {words}, open_file_cache, no access log");
    let proof = Proof::Header { name: "x-cache-status".to_owned(), contains: "HIT".to_owned() };
    Ok(found.subject(name, settings, proof, front, running))
}

/// `user root` only has an effect for root, who then owns the wish's folder; for anyone else it is
/// a warning in the log.
fn configuration(front: &Front, wish: &Wish, sending: &str) -> String {
    let (listen, upstream) = (front.listen("unix:"), front.upstream);
    let proto = if front.h2c { " http2" } else { "" };
    // A file takes whole pages of 4 KiB. With a quarter more, a million small replies fit into 4
    // GiB here too.
    let mebibytes = mebibytes(wish.cache_bytes + wish.cache_bytes / 4);
    // Half of the files may stay open for hits; an eighth is for connections, which need two on a
    // miss.
    let files = open_files();
    let (kept_open, connections) = (files / 2, files / 8);
    format!(
        "daemon off;
user root root;
worker_processes 1;
worker_rlimit_nofile {files};
pid nginx.pid;
error_log stderr error;
events {{
    worker_connections {connections};
    multi_accept on;
}}
http {{
    access_log off;
    server_tokens off;
    {sending}
    tcp_nodelay on;
    keepalive_timeout 1h;
    keepalive_requests 1000000000;
    # A hit otherwise opens, looks at and closes a file.
    open_file_cache max={kept_open} inactive=1h;
    open_file_cache_valid 1h;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    # 8,000 keys to a mebibyte: the zone holds a million and more.
    proxy_cache_path kept levels=1:2 keys_zone=kept:256m max_size={mebibytes}m inactive=2h use_temp_path=off;
    upstream service {{
        server {upstream};
        keepalive 64;
        keepalive_requests 1000000000;
    }}
    server {{
        listen {listen} backlog=4096{proto};
        location / {{
            proxy_pass http://service;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_set_header Host $http_host;
            proxy_cache kept;
            proxy_cache_key $request_uri;
            proxy_cache_valid 200 {TTL_S}s;
            proxy_cache_lock on;
            # Kept for an hour whatever the reply says, as Nearside's routes do; its headers are passed on as they are.
            proxy_ignore_headers Cache-Control Expires;
            proxy_pass_header Date;
            proxy_pass_header Server;
            add_header X-Cache-Status $upstream_cache_status;
        }}
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
    fn nginx_configuration_states_addresses_and_keepalive() {
        let text = configuration(&front(false), &wish(false), "sendfile on;");
        for line in [
            "listen 127.0.0.1:7001 backlog",
            "server 127.0.0.1:7002;",
            "keepalive_requests 1000000000;",
            "max_size=80m",
            "proxy_cache_valid 200 3600s;",
            "access_log off;",
            "worker_processes 1;",
            "sendfile on;",
            "add_header X-Cache-Status $upstream_cache_status;",
        ] {
            assert!(text.contains(line), "{line} in:\n{text}");
        }
        let h2c = Front { h2c: true, ..front(false) };
        assert!(configuration(&h2c, &wish(false), "").contains("listen 127.0.0.1:7001 backlog=4096 http2;"));
        assert!(configuration(&front(true), &wish(true), "").contains("listen unix:/folder/listen.sock backlog"));
    }
}
