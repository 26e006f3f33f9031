//! Fetching certificates: single flight, pauses, and which slots give way.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::*;
use crate::config::TopicArn;
use crate::lab::signer::Signer;
use crate::model::time::Wall;
use crate::tasks::{TaskGroup, Tasks};

/// 2026-11-21T05:00:00Z
const NOW: Wall = Wall::from_millis(1_795_237_200_000);

fn trust() -> Trust {
    let topic = TopicArn {
        arn: "arn:aws:sns:eu-west-1:123456789012:changes".into(),
        partition: "aws".into(),
        region: "eu-west-1".into(),
        account: "123456789012".into(),
        name: "changes".into(),
    };
    Trust::new(&topic, None)
}

fn admitted(number: usize) -> AdmittedUrl {
    trust()
        .admit(&format!("https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-{number:032x}.pem"))
        .unwrap()
}

fn pem() -> Bytes {
    Bytes::copy_from_slice(
        Signer::generate(Wall::default(), NOW + Duration::from_secs(60)).certificate_pem().as_bytes(),
    )
}

/// Holds every fetch until the gate opens.
fn gated(gate: Arc<Notify>, fetches: Arc<AtomicUsize>, answer: Result<Bytes, Unfetched>) -> Fetcher {
    Fetcher::Given(Box::new(move |_| {
        fetches.fetch_add(1, Ordering::SeqCst);
        let (gate, answer) = (gate.clone(), answer.clone());
        Box::pin(async move {
            gate.notified().await;
            answer
        })
    }))
}

#[tokio::test(start_paused = true)]
async fn concurrent_messages_share_one_fetch() {
    for answer in [Ok(pem()), Err(Unfetched::Unreachable)] {
        let (gate, fetches) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let fetcher = gated(gate.clone(), fetches.clone(), answer.clone());
        let certificates = Arc::new(CertificateCache::new(fetcher, Clock::simulated(NOW)));
        let mut attempts = TaskGroup::new();
        for _ in 0..50 {
            let certificates = certificates.clone();
            attempts.start(async move { certificates.get(&trust(), &admitted(0)).await.is_ok() });
        }
        tokio::time::advance(Duration::from_millis(10)).await;
        gate.notify_one();
        for _ in 0..50 {
            assert_eq!(attempts.next().await, Some(answer.is_ok()));
        }
        assert_eq!(fetches.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn endless_fetch_and_waiters_time_out() {
    let fetches = Arc::new(AtomicUsize::new(0));
    let fetcher = gated(Arc::new(Notify::new()), fetches.clone(), Ok(pem()));
    let certificates = Arc::new(CertificateCache::new(fetcher, Clock::simulated(NOW)));
    let mut attempts = TaskGroup::new();
    for number in 0..=limits::CERTIFICATE_FETCHES {
        // Each fetch has a topic of its own, so they share only the permits.
        let certificates = certificates.clone();
        attempts.start(async move { certificates.get(&trust(), &admitted(number)).await.err() });
    }
    tokio::time::advance(Duration::from_millis(10)).await;
    assert_eq!(fetches.load(Ordering::SeqCst), limits::CERTIFICATE_FETCHES, "the last one waits for a permit");
    for _ in 0..=limits::CERTIFICATE_FETCHES {
        assert_eq!(attempts.next().await, Some(Some(Without::Unfetched(Unfetched::Late))));
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_urls_fetched_singly_per_topic() {
    let (gate, fetches) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let certificates = gated(gate.clone(), fetches.clone(), Err(Unfetched::Status(404)));
    let certificates = Arc::new(CertificateCache::new(certificates, Clock::simulated(NOW)));
    let (topic, mut attempts) = (trust(), TaskGroup::new());
    for number in 0..3 {
        let (certificates, topic) = (certificates.clone(), topic.clone());
        attempts.start(async move { certificates.get(&topic, &admitted(number)).await.err() });
    }
    for fetched in 1..=3 {
        tokio::time::advance(Duration::from_millis(10)).await;
        assert_eq!(fetches.load(Ordering::SeqCst), fetched);
        gate.notify_one();
        assert_eq!(attempts.next().await, Some(Some(Without::Unfetched(Unfetched::Status(404)))));
    }
}

/// A host that has the certificate of `admitted(0)` and does not answer for any other URL until
/// `gate` opens.
fn one_good_one(gate: Arc<Notify>, fetches: Arc<AtomicUsize>) -> Fetcher {
    let served = pem();
    Fetcher::Given(Box::new(move |url| {
        fetches.fetch_add(1, Ordering::SeqCst);
        let (gate, served, is_good) = (gate.clone(), served.clone(), url == admitted(0).url);
        Box::pin(async move {
            if is_good {
                return Ok(served);
            }
            gate.notified().await;
            Err(Unfetched::Status(404))
        })
    }))
}

#[tokio::test(start_paused = true)]
async fn forged_urls_in_flight_evict_nothing() {
    let (gate, fetches) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let fetcher = one_good_one(gate.clone(), fetches.clone());
    let certificates = Arc::new(CertificateCache::new(fetcher, Clock::simulated(NOW)));
    let topic = trust();
    assert!(certificates.get(&topic, &admitted(0)).await.is_ok());
    let mut attempts = TaskGroup::new();
    for number in 1..=4 * limits::CERTIFICATES {
        let (certificates, topic) = (certificates.clone(), topic.clone());
        attempts.start(async move { certificates.get(&topic, &admitted(number)).await.err() });
    }
    tokio::time::advance(Duration::from_millis(10)).await;
    let before = fetches.load(Ordering::SeqCst);
    assert!(certificates.get(&topic, &admitted(0)).await.is_ok(), "at once: it is still here");
    assert_eq!(fetches.load(Ordering::SeqCst), before);
    assert_eq!(certificates.slots.lock().len(), limits::UNKNOWN_CERTIFICATES + 1);
}

#[tokio::test(start_paused = true)]
async fn forged_urls_evict_no_certificate() {
    let served = pem();
    let fetches = Arc::new(AtomicUsize::new(0));
    let fetcher = Fetcher::given({
        let fetches = fetches.clone();
        move |url| {
            fetches.fetch_add(1, Ordering::SeqCst);
            if *url == admitted(0).url { Ok(served.clone()) } else { Err(Unfetched::Status(404)) }
        }
    });
    let certificates = CertificateCache::new(fetcher, Clock::simulated(NOW));
    assert!(certificates.get(&trust(), &admitted(0)).await.is_ok());
    for number in 1..4 * limits::CERTIFICATES {
        let missing = certificates.get(&trust(), &admitted(number)).await.err();
        assert_eq!(missing, Some(Without::Unfetched(Unfetched::Status(404))));
    }
    let before = fetches.load(Ordering::SeqCst);
    assert!(certificates.get(&trust(), &admitted(0)).await.is_ok());
    assert_eq!(fetches.load(Ordering::SeqCst), before, "it is still here");
    assert_eq!(certificates.slots.lock().len(), limits::UNKNOWN_CERTIFICATES + 1);
}

#[tokio::test(start_paused = true)]
async fn least_recently_used_certificate_is_evicted() {
    let served = pem();
    let certificates = CertificateCache::new(Fetcher::given(move |_| Ok(served.clone())), Clock::simulated(NOW));
    for number in 0..=limits::CERTIFICATES {
        tokio::time::advance(Duration::from_millis(10)).await;
        assert!(certificates.get(&trust(), &admitted(number)).await.is_ok());
    }
    let slots = certificates.slots.lock();
    let kept = [0, 1, limits::CERTIFICATES].map(|number| slots.iter().any(|slot| slot.url == admitted(number).url));
    assert_eq!(kept, [false, true, true]);
}

/// Serves one canned reply per connection, chosen by the path requested, and records the requests.
async fn serve(tasks: &Tasks, requests: Arc<Mutex<Vec<String>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn("test server", async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let path = String::from_utf8(head).unwrap().split(' ').nth(1).unwrap().to_owned();
            let reply = match path.as_str() {
                "/redirect" => "HTTP/1.1 302 Found\r\nlocation: /good\r\ncontent-length: 0\r\n\r\n".to_owned(),
                "/broken" => "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_owned(),
                "/large" => format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(limits::CERTIFICATE_BYTES + 1)),
                _ => "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ngood".to_owned(),
            };
            requests.lock().push(path);
            // A client that has seen enough may hang up.
            let _ = stream.write_all(reply.as_bytes()).await;
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn fetcher_bounds_body_and_ignores_redirects() {
    let (tasks, requests) = (Tasks::new(), Arc::<Mutex<Vec<String>>>::default());
    let origin = serve(&tasks, requests.clone()).await;
    let fetcher = Fetcher::network(true).unwrap();
    for (path, outcome) in [
        ("/good", Ok(Bytes::from_static(b"good"))),
        ("/redirect", Err(Unfetched::Status(302))),
        ("/broken", Err(Unfetched::Unreachable)),
        ("/large", Err(Unfetched::Oversized)),
    ] {
        assert_eq!(fetcher.fetch(&Url::parse(&format!("{origin}{path}")).unwrap()).await, outcome);
    }
    assert_eq!(*requests.lock(), ["/good", "/redirect", "/broken", "/large"]);
}

#[tokio::test]
async fn plain_http_needs_insecure_signer() {
    let (tasks, requests) = (Tasks::new(), Arc::<Mutex<Vec<String>>>::default());
    let origin = serve(&tasks, requests.clone()).await;
    let fetcher = Fetcher::network(false).unwrap();
    let fetched = fetcher.fetch(&Url::parse(&format!("{origin}/good")).unwrap()).await;
    assert_eq!(fetched, Err(Unfetched::Unreachable));
    assert!(requests.lock().is_empty());
}
