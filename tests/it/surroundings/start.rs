//! Nothing is wrong: the suite's own question, put where the answer is known.

use super::super::program::{Program, settings};
use super::super::service::Service;

#[tokio::test]
async fn serves_and_stops_when_healthy() {
    let service = Service::start(2);
    let urls = service.urls();
    let regions = [("eu-west-1", urls[0].as_str(), ""), ("us-east-1", urls[1].as_str(), "")];
    let rest = "[announcements]\ntransport = \"off\"\n[drain]\nlinger = \"0s\"\n";
    let program = Program::start(&settings("well", &regions, rest)).await;
    super::serves(&program, "alpha").await;
    super::stops(program).await;
}
