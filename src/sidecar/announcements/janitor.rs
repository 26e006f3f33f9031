//! `nearside janitor`: removes the queues and subscriptions that dead sidecars left behind. A
//! sidecar that was killed cannot clean up after itself, but it cannot re-tag its queue either.
//!
//! Only a queue with our prefix, our tag and an `alive` tag older than [`limits::ABANDONED`] is
//! touched, and only a subscription that leads to such a queue or to one of ours that no longer
//! exists. What is in doubt is kept and listed.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use std::time::Duration;

use crate::aws::clients::{self, Clients, Sdk};
use crate::aws::failure::{CallFailure, CallFault};
use crate::aws::sqs::{self, ALIVE, OURS, PREFIX};
use crate::config::TopicArn;
use crate::model::time::Wall;
use crate::sidecar::limits;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JanitorTarget {
    /// An AWS region.
    pub region: String,
    /// Topics there whose subscriptions are checked, besides those that the queues' tags name.
    pub topics: Vec<String>,
}

impl JanitorTarget {
    /// One target per AWS region that `topics` name.
    pub fn of_topics<'a>(topics: impl IntoIterator<Item = &'a TopicArn>) -> Vec<Self> {
        let mut places: Vec<Self> = Vec::new();
        for topic in topics {
            match places.iter_mut().find(|place| place.region == topic.region) {
                Some(place) => place.topics.push(topic.arn.clone()),
                None => places.push(Self { region: topic.region.clone(), topics: vec![topic.arn.clone()] }),
            }
        }
        places
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbandonedThing {
    pub region: String,
    pub what: What,
    /// A queue's name or a subscription's ARN.
    pub name: String,
    /// For a queue: how long its process has been silent.
    pub silent: Option<Duration>,
    pub fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum What {
    Queue,
    Subscription,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Left alone, with the reason.
    Kept(&'static str),
    /// Would be removed: a dry run.
    Doomed,
    Removed,
    /// Should be removed and could not be.
    Stuck(CallFailure),
}

/// Findings and actions of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JanitorReport {
    /// Findings in the order they were made.
    pub findings: Vec<AbandonedThing>,
    /// Regions and topics that could not be checked, and why.
    pub failures: Vec<(String, CallFailure)>,
}

impl JanitorReport {
    /// True if everything was checked and all that had to go is gone (or would be).
    pub fn is_clean(&self) -> bool {
        self.failures.is_empty() && !self.findings.iter().any(|finding| matches!(finding.fate, Fate::Stuck(_)))
    }

    /// Writes it as a table.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        if self.findings.is_empty() {
            writeln!(out, "no queue or subscription of a sidecar was found")?;
        } else {
            writeln!(out, "{:<16} {:<13} {:<12} {:<24} NAME", "REGION", "WHAT", "SILENT", "FATE")?;
        }
        for finding in &self.findings {
            let what = finding.what.into_str();
            let silent = finding.silent.map_or("-".to_owned(), |span| {
                humantime::format_duration(Duration::from_secs(span.as_secs() / 60 * 60)).to_string()
            });
            let fate = match &finding.fate {
                Fate::Kept(why) => format!("kept: {why}"),
                Fate::Doomed => "would be removed".to_owned(),
                Fate::Removed => "removed".to_owned(),
                Fate::Stuck(failure) => format!("not removed: {failure}"),
            };
            writeln!(out, "{:<16} {what:<13} {silent:<12} {fate:<24} {}", finding.region, finding.name)?;
        }
        for (name, failure) in &self.failures {
            writeln!(out, "{name}: {failure}; {}", advice(failure))?;
        }
        Ok(())
    }
}

fn advice(failure: &CallFailure) -> &'static str {
    match failure.fault {
        CallFault::Denied(_) => {
            "allow this process's role sqs:ListQueues, sqs:ListQueueTags, sqs:GetQueueUrl, sqs:DeleteQueue, \
             sns:ListSubscriptionsByTopic and sns:Unsubscribe"
        }
        _ => failure.advice(),
    }
}

/// Checks every target and, unless `dry_run`, removes what has been silent for longer than
/// `silence` ([`limits::ABANDONED`] by default).
pub async fn sweep(
    sdk: &Sdk,
    places: &[JanitorTarget],
    now: Wall,
    silence: Duration,
    dry_run: bool,
) -> JanitorReport {
    let mut report = JanitorReport::default();
    for place in places {
        let clients = sdk.clients(&place.region).await;
        let mut sweep = Sweep { clients, place, now, silence, dry_run, report: &mut report };
        sweep.run().await;
    }
    report
}

/// A sweep of one target.
struct Sweep<'a> {
    clients: Clients,
    place: &'a JanitorTarget,
    now: Wall,
    silence: Duration,
    dry_run: bool,
    report: &'a mut JanitorReport,
}

#[derive(Default)]
struct Queues {
    /// Name and URL of those to remove.
    abandoned: Vec<(String, String)>,
    /// Names of all that exist.
    existing: BTreeSet<String>,
    /// Topics that tags name.
    topics: BTreeSet<String>,
}

impl Sweep<'_> {
    async fn run(&mut self) {
        let queues = match self.queues().await {
            Ok(queues) => queues,
            Err(failure) => return self.report.failures.push((self.place.region.clone(), failure)),
        };
        // Subscriptions first: a queue without them gets no more messages, a subscription without
        // its queue fails.
        for topic in queues.topics.iter().chain(&self.place.topics).collect::<BTreeSet<_>>() {
            if let Err(failure) = self.subscriptions(topic, &queues).await {
                self.report.failures.push((topic.clone(), failure));
            }
        }
        for (name, url) in &queues.abandoned {
            let fate = if self.dry_run { Fate::Doomed } else { fate(sqs::delete(&self.clients.sqs, url).await) };
            let found = self.report.findings.iter_mut().find(|finding| finding.name == *name);
            if let Some(finding) = found {
                finding.fate = fate;
            }
        }
    }

    /// Lists our queues, each with its fate.
    async fn queues(&mut self) -> Result<Queues, CallFailure> {
        let mut queues = Queues::default();
        let mut pages =
            self.clients.sqs.list_queues().queue_name_prefix(PREFIX).max_results(1000).into_paginator().send();
        let mut urls = Vec::new();
        for _ in 0..limits::JANITOR_PAGES {
            let Some(page) = pages.next().await else { break };
            let page = page.map_err(|error| CallFailure::of("ListQueues", &error))?;
            urls.extend(page.queue_urls.unwrap_or_default());
        }
        for url in urls {
            let name = url.rsplit('/').next().unwrap_or_default().to_owned();
            let (fate, silent) = match self.clients.sqs.list_queue_tags().queue_url(&url).send().await {
                Ok(answer) => {
                    let tags = answer.tags.unwrap_or_default();
                    queues.topics.extend(tags.get("topic").filter(|_| is_ours(&tags)).cloned());
                    judge(&tags, self.now, self.silence)
                }
                Err(error) => match CallFailure::of("ListQueueTags", &error) {
                    failure if failure.is_gone() => continue,
                    failure => (Fate::Stuck(failure), None),
                },
            };
            if fate == Fate::Doomed {
                queues.abandoned.push((name.clone(), url));
            }
            queues.existing.insert(name.clone());
            self.found(What::Queue, name, silent, fate);
        }
        Ok(queues)
    }

    /// Checks a topic's subscriptions and removes those that lead to an abandoned queue or to none.
    async fn subscriptions(&mut self, topic: &str, queues: &Queues) -> Result<(), CallFailure> {
        let mut pages = self.clients.sns.list_subscriptions_by_topic().topic_arn(topic).into_paginator().send();
        let mut leading = Vec::new();
        for _ in 0..limits::JANITOR_PAGES {
            let Some(page) = pages.next().await else { break };
            let page = page.map_err(|error| CallFailure::of("ListSubscriptionsByTopic", &error))?;
            leading.extend(page.subscriptions.unwrap_or_default().into_iter().filter_map(|subscription| {
                let queue = our_queue(subscription.protocol.as_deref()?, subscription.endpoint.as_deref()?)?;
                // One that was never confirmed has no ARN; SNS forgets it by itself.
                Some((subscription.subscription_arn.filter(|arn| arn.starts_with("arn:"))?, queue))
            }));
        }
        for (subscription, queue) in leading {
            let abandoned = queues.abandoned.iter().any(|(name, _)| *name == queue.name);
            if queues.existing.contains(&queue.name) && !abandoned {
                continue;
            }
            if !abandoned {
                // Not in the listing: gone, or another account's, or made a moment ago.
                match sqs::find(&self.clients.sqs, &queue.name, Some(&queue.account)).await {
                    Ok(None) => {}
                    Ok(Some(_)) => continue,
                    Err(_) => {
                        self.found(What::Subscription, subscription, None, Fate::Kept("its queue cannot be seen"));
                        continue;
                    }
                }
            }
            let fate = if self.dry_run {
                Fate::Doomed
            } else {
                fate(clients::unsubscribe(&self.clients.sns, &subscription).await)
            };
            self.found(What::Subscription, subscription, None, fate);
        }
        Ok(())
    }

    fn found(&mut self, what: What, name: String, silent: Option<Duration>, fate: Fate) {
        self.report.findings.push(AbandonedThing { region: self.place.region.clone(), what, name, silent, fate });
    }
}

fn fate(removed: Result<(), CallFailure>) -> Fate {
    removed.map_or_else(Fate::Stuck, |()| Fate::Removed)
}

fn is_ours(tags: &HashMap<String, String>) -> bool {
    tags.get(OURS).is_some_and(|value| value == "1")
}

/// The fate of a queue with these tags, and how long its process has been silent.
fn judge(tags: &HashMap<String, String>, now: Wall, silence: Duration) -> (Fate, Option<Duration>) {
    if !is_ours(tags) {
        return (Fate::Kept("not tagged as ours"), None);
    }
    let Some(alive) = tags.get(ALIVE).and_then(|text| text.parse::<u64>().ok()) else {
        return (Fate::Kept("no alive tag"), None);
    };
    let silent = now.since(Wall::from_millis(alive.saturating_mul(1000)));
    if silent > silence { (Fate::Doomed, Some(silent)) } else { (Fate::Kept("alive"), Some(silent)) }
}

/// A queue that could be ours, by its ARN.
struct OurQueue {
    account: String,
    name: String,
}

fn our_queue(protocol: &str, endpoint: &str) -> Option<OurQueue> {
    let mut parts = endpoint.split(':').skip(4);
    let (account, name) = (parts.next()?, parts.next()?);
    let ours = protocol == "sqs" && name.starts_with(PREFIX);
    ours.then(|| OurQueue { account: account.to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn fate(pairs: &[(&str, &str)]) -> Fate {
        judge(&tags(pairs), Wall::from_millis(200_000_000), limits::ABANDONED).0
    }

    #[test]
    fn only_own_silent_queues_are_doomed() {
        assert_eq!(fate(&[(OURS, "1"), (ALIVE, "113599")]), Fate::Doomed);
        assert_eq!(fate(&[(OURS, "1"), (ALIVE, "113600")]), Fate::Kept("alive"));
        assert_eq!(
            fate(&[(OURS, "1"), (ALIVE, "900000")]),
            Fate::Kept("alive"),
            "a clock ahead of ours is no reason"
        );
        assert_eq!(fate(&[(OURS, "1"), (ALIVE, "soon")]), Fate::Kept("no alive tag"));
        assert_eq!(fate(&[(ALIVE, "1")]), Fate::Kept("not tagged as ours"));
    }

    #[test]
    fn foreign_subscription_is_not_ours() {
        assert!(our_queue("sqs", "arn:aws:sqs:eu-west-1:000000000000:nearside-x-1").is_some());
        assert!(our_queue("sqs", "arn:aws:sqs:eu-west-1:000000000000:orders").is_none());
        assert!(our_queue("lambda", "arn:aws:lambda:eu-west-1:000000000000:function:nearside-x").is_none());
        assert!(our_queue("https", "https://example.com/nearside-x").is_none());
    }

    #[test]
    fn topics_are_swept_once_per_region() {
        let topics = [("eu-west-1", "a"), ("us-east-1", "a"), ("eu-west-1", "b")].map(|(region, name)| TopicArn {
            arn: format!("arn:aws:sns:{region}:000000000000:{name}"),
            partition: "aws".to_owned(),
            region: region.to_owned(),
            account: "000000000000".to_owned(),
            name: name.to_owned(),
        });
        let places = JanitorTarget::of_topics(&topics);
        assert_eq!(places.iter().map(|place| place.topics.len()).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn report_table_states_fate_and_remedy() {
        let denied = CallFailure { call: "ListQueues", fault: CallFault::Denied("no".to_owned()) };
        let report = JanitorReport {
            findings: vec![AbandonedThing {
                region: "eu-west-1".to_owned(),
                what: What::Queue,
                name: "nearside-x-1".to_owned(),
                silent: Some(Duration::from_secs(90_061)),
                fate: Fate::Doomed,
            }],
            failures: vec![("us-east-1".to_owned(), denied)],
        };
        let mut out = Vec::new();
        report.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("would be removed") && text.contains("1day 1h 1m") && text.contains("sqs:ListQueues"));
        assert!(!report.is_clean());
    }
}
