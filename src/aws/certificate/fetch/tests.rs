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
async fn any_number_of_messages_share_one_fetch_and_its_failure() {
    for answer in [Ok(pem()), Err(Unfetched::Unreachable)] {
        let (gate, fetches) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let fetcher = gated(gate.clone(), fetches.clone(), answer.clone());
        let certificates = Arc::new(CertificateCache::new(fetcher, Clock::simulated(NOW)));
        let mut legs = TaskGroup::new();
        for _ in 0..50 {
            let certificates = certificates.clone();
            legs.start(async move { certificates.get(&trust(), &admitted(0)).await.is_ok() });
        }
        tokio::time::advance(Duration::from_millis(10)).await;
        gate.notify_one();
        for _ in 0..50 {
            assert_eq!(legs.next().await, Some(answer.is_ok()));
        }
        assert_eq!(fetches.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_never_ends_is_given_up_and_so_are_those_that_wait_for_a_permit() {
    let fetches = Arc::new(AtomicUsize::new(0));
    let fetcher = gated(Arc::new(Notify::new()), fetches.clone(), Ok(pem()));
    let certificates = Arc::new(CertificateCache::new(fetcher, Clock::simulated(NOW)));
    let mut legs = TaskGroup::new();
    for number in 0..=limits::CERTIFICATE_FETCHES {
        // Each fetch has a topic of its own, so they share only the permits.
        let certificates = certificates.clone();
        legs.start(async move { certificates.get(&trust(), &admitted(number)).await.err() });
    }
    tokio::time::advance(Duration::from_millis(10)).await;
    assert_eq!(fetches.load(Ordering::SeqCst), limits::CERTIFICATE_FETCHES, "the last one waits for a permit");
    for _ in 0..=limits::CERTIFICATE_FETCHES {
        assert_eq!(legs.next().await, Some(Some(Without::Unfetched(Unfetched::Late))));
    }
}

#[tokio::test(start_paused = true)]
async fn of_one_topics_unknown_urls_one_is_fetched_at_a_time() {
    let (gate, fetches) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let certificates = gated(gate.clone(), fetches.clone(), Err(Unfetched::Status(404)));
    let certificates = Arc::new(CertificateCache::new(certificates, Clock::simulated(NOW)));
    let (topic, mut legs) = (trust(), TaskGroup::new());
    for number in 0..3 {
        let (certificates, topic) = (certificates.clone(), topic.clone());
        legs.start(async move { certificates.get(&topic, &admitted(number)).await.err() });
    }
    for fetched in 1..=3 {
        tokio::time::advance(Duration::from_millis(10)).await;
        assert_eq!(fetches.load(Ordering::SeqCst), fetched);
        gate.notify_one();
        assert_eq!(legs.next().await, Some(Some(Without::Unfetched(Unfetched::Status(404)))));
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
async fn made_up_urls_that_are_all_being_fetched_do_not_displace_a_certificate() {
    let (gate, fetches) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let fetcher = one_good_one(gate.clone(), fetches.clone());
    let certificates = Arc::new(CertificateCache::new(fetcher, Clock::simulated(NOW)));
    let topic = trust();
    assert!(certificates.get(&topic, &admitted(0)).await.is_ok());
    let mut legs = TaskGroup::new();
    for number in 1..=4 * limits::CERTIFICATES {
        let (certificates, topic) = (certificates.clone(), topic.clone());
        legs.start(async move { certificates.get(&topic, &admitted(number)).await.err() });
    }
    tokio::time::advance(Duration::from_millis(10)).await;
    let before = fetches.load(Ordering::SeqCst);
    assert!(certificates.get(&topic, &admitted(0)).await.is_ok(), "at once: it is still here");
    assert_eq!(fetches.load(Ordering::SeqCst), before);
    assert_eq!(certificates.slots.lock().unwrap().len(), limits::UNKNOWN_CERTIFICATES + 1);
}

#[tokio::test(start_paused = true)]
async fn made_up_urls_do_not_displace_a_certificate_and_the_number_kept_is_bounded() {
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
    assert_eq!(certificates.slots.lock().unwrap().len(), limits::UNKNOWN_CERTIFICATES + 1);
}

#[tokio::test(start_paused = true)]
async fn certificates_displace_the_one_that_was_used_longest_ago() {
    let served = pem();
    let certificates = CertificateCache::new(Fetcher::given(move |_| Ok(served.clone())), Clock::simulated(NOW));
    for number in 0..=limits::CERTIFICATES {
        tokio::time::advance(Duration::from_millis(10)).await;
        assert!(certificates.get(&trust(), &admitted(number)).await.is_ok());
    }
    let kept = |number: usize| {
        let slots = certificates.slots.lock().unwrap();
        slots.iter().any(|slot| slot.url == admitted(number).url)
    };
    assert_eq!((kept(0), kept(1), kept(limits::CERTIFICATES)), (false, true, true));
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
            requests.lock().unwrap().push(path);
            // A client that has seen enough may hang up.
            let _ = stream.write_all(reply.as_bytes()).await;
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn the_network_fetcher_follows_no_redirect_and_bounds_what_it_reads() {
    let (tasks, requests) = (Tasks::new(), Arc::<Mutex<Vec<String>>>::default());
    let origin = serve(&tasks, requests.clone()).await;
    let fetcher = Fetcher::network(true).unwrap();
    let get = async |path: &str| fetcher.fetch(&Url::parse(&format!("{origin}{path}")).unwrap()).await;
    assert_eq!(get("/good").await, Ok(Bytes::from_static(b"good")));
    assert_eq!(get("/redirect").await, Err(Unfetched::Status(302)));
    assert_eq!(get("/broken").await, Err(Unfetched::Unreachable));
    assert_eq!(get("/large").await, Err(Unfetched::Oversized));
    assert_eq!(*requests.lock().unwrap(), ["/good", "/redirect", "/broken", "/large"]);
}

#[tokio::test]
async fn without_an_insecure_signer_nothing_is_fetched_over_plain_http() {
    let (tasks, requests) = (Tasks::new(), Arc::<Mutex<Vec<String>>>::default());
    let origin = serve(&tasks, requests.clone()).await;
    let fetcher = Fetcher::network(false).unwrap();
    let fetched = fetcher.fetch(&Url::parse(&format!("{origin}/good")).unwrap()).await;
    assert_eq!(fetched, Err(Unfetched::Unreachable));
    assert!(requests.lock().unwrap().is_empty());
}
