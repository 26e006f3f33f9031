//! Exceptions from sharing between readers of one fill: cookies, and replies that vary by something
//! that is not in the key.

use super::*;

const COOKIE: &str = "session=1";

#[tokio::test(start_paused = true)]
async fn one_reader_of_fill_gets_cookie() {
    for (say, status) in [(shows(5), 200), (status(500), 500), (status(403), 403)] {
        let world = World::new(at_five());
        world.set_all(20, say.with("set-cookie", COOKIE));
        let readers: Vec<_> = (0..10).map(|_| world.begin(X)).collect();
        let mut answers = Vec::new();
        for reader in readers {
            answers.push(reader.await.unwrap().unwrap());
        }
        answers.push(world.get(X).await);
        assert!(answers.iter().all(|answer| answer.status == status));
        let got: Vec<_> = answers.iter().filter(|answer| !answer.cookies.is_empty()).collect();
        let own = usize::from(status == 403);
        assert_eq!(got.len(), 1 + own, "{status}: a 403 is kept for nobody, so that the last one asked as well");
        assert!(got.iter().all(|answer| !answer.line.contains("collapsed")), "the one whose request it was");
        world.stop().await;
    }
}

/// Readers who join a fill that began in the background did not cause it.
#[tokio::test(start_paused = true)]
async fn background_fill_cookie_reaches_nobody() {
    let world = World::new(at_five());
    world.live().await;
    world.get(X).await;
    world.set_all(500, shows(6).with("set-cookie", COOKIE));
    world.announce(A, "x", 6);
    tokio::time::sleep(ms(100)).await;
    let answer = world.get(X).await;
    assert_eq!((answer.body.as_str(), answer.line.contains("collapsed")), ("6", true), "{}", answer.line);
    assert_eq!(answer.cookies, Vec::<String>::new());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unkeyed_vary_makes_readers_ask_separately() {
    let world = World::new(at_five());
    world.set_all(20, shows(5).with("vary", "origin, user-agent"));
    let readers: Vec<_> = (0..3).map(|_| world.begin(X)).collect();
    for reader in readers {
        let answer = reader.await.unwrap().unwrap();
        assert!(!answer.is_stored() && !answer.line.contains("collapsed"), "{}", answer.line);
    }
    assert_eq!(world.asked().len(), 3 * REGIONS, "the first, and the two who joined");
    world.stop().await;
}
