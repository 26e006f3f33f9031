//! Fetches one small page over a connection of its own: an admin page, or an order to one of the
//! harness's servers. Time and length are bounded. It is never used where something is measured.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::limits;

/// The body of a 200 at `path`; any other status is an error.
pub(super) fn page(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, limits::BENCH_ANSWER_WAIT)?;
    stream.set_read_timeout(Some(limits::BENCH_ANSWER_WAIT))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.take(limits::BENCH_PAGE_BYTES).read_to_string(&mut answer)?;
    body(&answer).map(str::to_owned).ok_or_else(|| {
        let said = answer.lines().next().unwrap_or("nothing");
        io::Error::new(io::ErrorKind::InvalidData, format!("{address}{path} said {said}"))
    })
}

/// Returns the body of a 200.
fn body(answer: &str) -> Option<&str> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200 ").then_some(body)
}

/// The value of metric `name` with `label` (`outcome="applied"`), summed over all other labels.
pub(super) fn total(metrics: &str, name: &str, label: &str) -> u64 {
    let of_it = metrics
        .lines()
        .filter(|line| line.split_once('{').is_some_and(|(named, labels)| named == name && labels.contains(label)));
    of_it.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_body_of_200_only() {
        assert_eq!(body("HTTP/1.1 200 OK\r\na: b\r\n\r\nfresh"), Some("fresh"));
        assert_eq!(body("HTTP/1.1 503 Service Unavailable\r\n\r\ndraining"), None);
        assert_eq!(body("HTTP/1.1 200 OK\r\na: b"), None);
    }

    #[test]
    fn metric_is_summed_over_regions() {
        let metrics = "# TYPE nearside_announcements counter\n\
            nearside_announcements_total{region=\"a\",outcome=\"applied\"} 40\n\
            nearside_announcements_total{region=\"b\",outcome=\"applied\"} 2\n\
            nearside_announcements_total{region=\"b\",outcome=\"forged\"} 7\n\
            nearside_other_total{region=\"b\",outcome=\"applied\"} 9\n";
        assert_eq!(total(metrics, "nearside_announcements_total", "outcome=\"applied\""), 42);
        assert_eq!(total(metrics, "nearside_announcements_total", "outcome=\"forged\""), 7);
    }
}
